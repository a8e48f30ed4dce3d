package faults

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
)

// answerTime is how long a keepalive of a memoryLessor is under way.
const answerTime = 100 * time.Millisecond

// memoryLessor is a client.Lessor in memory, for one keeper. Its leases have a TTL of 4 s; a
// keepalive is sent each second, and the claim counts from then.
type memoryLessor struct {
	keys []string // with a lease
	// attachErr, if set, is what the first Attach fails with.
	attachErr error
	// grantErr, if set, is what the first Grant fails with; never makes each wait for
	// the end of its context.
	grantErr error
	never    bool
	// renewals is how often the first lease is renewed before its keepalive ends,
	// for the given reason.
	renewals int
	reason   error
	began    time.Time
	grants   []time.Duration // when they were made
}

func (r *memoryLessor) Grant(ctx context.Context, ttl time.Duration) (int64, time.Duration, error) {
	if r.never {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	time.Sleep(10 * time.Millisecond)
	if err := r.grantErr; err != nil {
		r.grantErr = nil
		return 0, 0, err
	}
	r.grants = append(r.grants, time.Since(r.began))
	return int64(len(r.grants)), ttl + time.Second, nil
}

func (r *memoryLessor) Attach(_ context.Context, _ int64, key, _ string) error {
	err := r.attachErr
	r.attachErr = nil
	if err == nil {
		r.keys = append(r.keys, key)
	}
	return err
}

func (r *memoryLessor) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		for n := 0; id > 1 || n < r.renewals; n++ {
			sent := time.Now()
			if pause.For(ctx, answerTime) != nil || !yield(sent.Add(4*time.Second), nil) {
				return
			}
			if pause.For(ctx, time.Second-answerTime) != nil {
				return
			}
		}
		if r.reason != nil {
			yield(time.Time{}, r.reason)
		}
	}
}

// leaseKey returns the key of the keeper's lease with an id.
func (r *run) leaseKey(id int) string {
	return fmt.Sprintf("/quorate-lab-leases/%016x/0/%x", r.cfg.Seed, id)
}

// keep runs a load with one keeper for a time.
func keep(t *testing.T, lessor *memoryLessor, lasts time.Duration) *run {
	lessor.began = time.Now()
	r := start(t, newMemory(), 1, lessor)
	time.Sleep(lasts)
	r.end()
	return r
}

func TestKeepersStartAnewWhenTheKeepaliveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lessor := &memoryLessor{renewals: 3, reason: errors.New("nobody answered")}
		r := keep(t, lessor, 5*time.Second)
		leases := r.load.leases()
		assert.Equal(t, []time.Duration{10 * time.Millisecond, 3010*time.Millisecond + regrantPause + 10*time.Millisecond}, lessor.grants)
		require.Len(t, leases, 2)
		assert.Equal(t, []time.Duration{3010 * time.Millisecond, 0}, []time.Duration{leases[0].lost, leases[1].lost}, "the end of the load is no expiry")
		const ms = time.Millisecond
		assert.Equal(t, []claim{{10 * ms, 4000 * ms}, {110 * ms, 4010 * ms}, {1110 * ms, 5010 * ms}, {2110 * ms, 6010 * ms}}, leases[0].claims,
			"that of the grant counts from its sending")
		assert.Equal(t, []string{r.leaseKey(1), r.leaseKey(2)}, lessor.keys, "each lease has a key of its own")
	})
}

func TestKeepersWithoutALeaseTryAgain(t *testing.T) {
	for name, lessor := range map[string]*memoryLessor{"none was granted": {grantErr: rpctypes.ErrNoLeader}, "it has no key": {attachErr: rpctypes.ErrTimeout}} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			lessor.renewals = 100
			r := keep(t, lessor, 0)
			assert.Equal(t, 1, r.env.Counts.Of("leases", "not granted: Unavailable"))
			last := len(lessor.grants)
			assert.Equal(t, 20*time.Millisecond+regrantPause, lessor.grants[last-1])
			assert.Equal(t, []string{r.leaseKey(last)}, lessor.keys)
			require.Len(t, r.load.leases(), 1)
			assert.Zero(t, r.load.leases()[0].lost)
		})
	}
}
