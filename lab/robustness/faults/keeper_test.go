package faults

import (
	"cmp"
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
	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/report"
)

// answerTime is how long a renter's keepalive is under way.
const answerTime = 100 * time.Millisecond

// renter is a client.Lessor in memory, for one keeper. Its leases have a TTL of 4 s; a
// keepalive is sent each second, or as often as every says, and the claim counts from
// then.
type renter struct {
	store *memory
	every time.Duration
	// attachErr, if set, is what the first Attach fails with, and does so before it is
	// executed if lost is set.
	attachErr error
	lost      bool
	revoked   []int64
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

func (r *renter) Grant(ctx context.Context, ttl time.Duration) (int64, time.Duration, error) {
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

func (r *renter) Attach(ctx context.Context, _ int64, key, _ string) error {
	err := r.attachErr
	r.attachErr = nil
	if err != nil && r.lost {
		return err
	}
	executed := r.store.Put(ctx, key, "of a lease")
	return errors.Join(err, executed)
}

func (r *renter) Revoke(_ context.Context, id int64) error {
	r.revoked = append(r.revoked, id)
	return nil
}

func (r *renter) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		for n := 0; id > 1 || n < r.renewals; n++ {
			sent := time.Now()
			_ = pause.For(ctx, answerTime)
			if ctx.Err() != nil || !yield(sent.Add(4*time.Second), nil) {
				return
			}
			_ = pause.For(ctx, cmp.Or(r.every, time.Second)-answerTime)
			if ctx.Err() != nil {
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

// keep has a keeper of a lessor's leases, while something happens to it, and then ends the load.
func keep(t *testing.T, lessor *renter, while func(*run, *memory)) (r *run, store *memory) {
	store = newMemory()
	lessor.store, lessor.began = store, time.Now()
	r = start(t, store, 1, lessor)
	while(r, store)
	r.end(t.Context())
	return r, store
}

// lose deletes the key of the first lease.
func lose(r *run, store *memory) {
	store.mu.Lock()
	defer store.mu.Unlock()
	delete(store.keys, r.leaseKey(1))
	close(store.deleted)
}

func nothing(*run, *memory) {}

func TestKeepersStartAnewWhenTheKeepaliveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("nobody answered")
		lessor := &renter{renewals: 3, reason: lost}
		r, store := keep(t, lessor, func(*run, *memory) { time.Sleep(5 * time.Second) })
		assert.Equal(t, []time.Duration{10 * time.Millisecond, 3010*time.Millisecond + regrantPause + 10*time.Millisecond}, lessor.grants)
		assert.EqualValues(t, 1, r.rec.Rows[0].LeasesLost, "the end of the load is no expiry")
		assert.Equal(t, report.Errors{"lease keepalive ended": {Count: 1, Sample: lost.Error()}}, r.rec.Errors)
		assert.GreaterOrEqual(t, r.env.Counts.Of("leases", "claims"), 4)
		assert.Contains(t, store.keys, r.leaseKey(1))
		assert.Contains(t, store.keys, r.leaseKey(2), "each lease has a key of its own")
	})
}

func TestKeepersStartAnewWhenTheKeyIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lessor := &renter{renewals: 100}
		r, _ := keep(t, lessor, func(r *run, store *memory) {
			time.Sleep(700 * time.Millisecond)
			lose(r, store)
			time.Sleep(time.Second)
		})
		assert.Equal(t, report.Errors{"lease key gone": {Count: 1}}, r.rec.Errors)
		assert.Len(t, lessor.grants, 2)
		require.Equal(t, map[tally.Promise]int{LeaseEndedEarly: 1}, r.rep.Counts)
		assert.Equal(t, r.leaseKey(1)+" of lease 1 was gone at 1.200000s, and the client claimed at 1.110000s that the lease lives until 5.010000s",
			r.rep.Violations[0].Message)
	})
}

// The client ends the keepalive of a lease that it still claims to live.
func TestKeepersWhoseKeepaliveEndsTooSoon(t *testing.T) {
	for name, gone := range map[string]bool{"the key is gone": true, "the key is there": false} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			lessor := &renter{every: 800 * time.Millisecond, renewals: 1, reason: rpctypes.ErrLeaseNotFound}
			r, _ := keep(t, lessor, func(r *run, store *memory) {
				time.Sleep(600 * time.Millisecond) // the keepalive ends after 810 ms
				if gone {
					lose(r, store)
				}
				time.Sleep(4 * time.Second)
			})
			assert.EqualValues(t, 1, r.rec.Rows[0].LeasesLost)
			assert.Equal(t, 810*time.Millisecond+regrantPause+10*time.Millisecond, lessor.grants[1], "the keeper does not wait")
			assert.Equal(t, gone, r.rep.Counts[LeaseEndedEarly] == 1, "%v", r.rep.Verdict)
		})
	}
}

// The claim of a lease that was never renewed counts from the sending of the grant.
func TestKeepersClaimWhatWasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := keep(t, &renter{reason: rpctypes.ErrLeaseNotFound}, func(r *run, store *memory) {
			lose(r, store)
			synctest.Wait()
		})
		require.Equal(t, map[tally.Promise]int{LeaseEndedEarly: 1}, r.rep.Counts)
		assert.Contains(t, r.rep.Violations[0].Message, "claimed at 0.010000s that the lease lives until 4.000000s")
	})
}

func TestKeepersWithoutALeaseTryAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		lessor  renter
		revoked []int64
	}{
		"none was granted":       {renter{grantErr: rpctypes.ErrNoLeader}, nil},
		"nothing was written":    {renter{attachErr: rpctypes.ErrTimeout, lost: true}, []int64{1}},
		"its key may be written": {renter{attachErr: rpctypes.ErrTimeout}, []int64{1}},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			tt.lessor.renewals = 100
			r, store := keep(t, &tt.lessor, nothing)
			assert.Equal(t, tt.revoked, tt.lessor.revoked)
			assert.Zero(t, r.rec.Rows[0].LeasesLost)
			assert.EqualValues(t, 1, r.rec.Errors["lease Unavailable"].Count)
			last := len(tt.lessor.grants)
			assert.Equal(t, 20*time.Millisecond+regrantPause, tt.lessor.grants[last-1])
			assert.Contains(t, store.keys, r.leaseKey(last))
		})
	}
}
