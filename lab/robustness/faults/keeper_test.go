package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
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
	grants   int
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
	r.grants++
	return int64(r.grants), ttl + time.Second, nil
}

func (r *renter) Attach(ctx context.Context, id int64, key, _ string) error {
	err := r.attachErr
	r.attachErr = nil
	if err != nil && r.lost {
		return err
	}
	return errors.Join(err, r.store.do(ctx, history.Put, func() {
		r.store.revision++
		r.store.keys[key] = stored{ModRevision: r.store.revision, Value: "of a lease", Version: id}
	}))
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

// ofLease returns the recorded events of one kind.
func (r *run) ofLease(k history.LeaseEventKind) []history.LeaseEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.rec.Leases), func(e history.LeaseEvent) bool { return e.Kind != k })
}

// leaseKey returns the key of the keeper's lease with an id.
func (r *run) leaseKey(id int) string {
	return fmt.Sprintf("/quorate-lab-leases/%016x/0/%x", r.cfg.Seed, id)
}

func TestKeepersStartAnewWhenTheKeepaliveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, lost := newMemory(), errors.New("nobody answered")
		r := start(t, client.Services{Store: store, Lessor: &renter{store: store, renewals: 3, reason: lost}}, 1)
		time.Sleep(5 * time.Second)
		r.end(t.Context())

		granted := r.ofLease(history.LeaseGranted)
		require.Len(t, granted, 2)
		assert.Equal(t, 10*time.Millisecond, granted[0].At)
		expired := r.ofLease(history.LeaseExpired)
		require.Len(t, expired, 1, "the end of the load is no expiry")
		assert.Equal(t, history.LeaseEvent{
			Kind: history.LeaseExpired, At: 3010 * time.Millisecond, Code: history.KeepaliveEnded, Err: lost,
		}, expired[0])
		assert.Equal(t, 3010*time.Millisecond+regrantPause+10*time.Millisecond, granted[1].At)
		renewed := r.ofLease(history.LeaseRenewed)
		require.GreaterOrEqual(t, len(renewed), 4)
		assert.Equal(t, 3990*time.Millisecond-answerTime, renewed[0].Margin, "counted from the sending of the grant")
		assert.Equal(t, 3*time.Second-answerTime, renewed[1].Margin, "the client's claim, counted from the sending before")
		assert.Contains(t, store.keys, r.leaseKey(1))
		assert.Contains(t, store.keys, r.leaseKey(2), "each lease has a key of its own")
	})
}

func TestKeepersStartAnewWhenTheKeyIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := start(t, client.Services{Store: store, Lessor: &renter{store: store, renewals: 100}}, 1)
		time.Sleep(1200 * time.Millisecond)
		store.mu.Lock()
		delete(store.keys, r.leaseKey(1))
		store.mu.Unlock()
		time.Sleep(time.Second)
		r.end(t.Context())
		expired := r.ofLease(history.LeaseExpired)
		require.Len(t, expired, 1)
		assert.Equal(t, history.LeaseEvent{Kind: history.LeaseExpired, At: 1510 * time.Millisecond, Code: history.KeyGone}, expired[0])
		assert.Len(t, r.ofLease(history.LeaseGranted), 2)

		require.GreaterOrEqual(t, len(r.looks), 3)
		claim := history.LeaseClaim{At: 1010*time.Millisecond + answerTime, Until: 5010 * time.Millisecond}
		lost := history.LeaseLook{
			Lease: 1, Key: r.leaseKey(1), Asked: 1510 * time.Millisecond, Answered: 1510 * time.Millisecond,
			Revision: r.looks[2].Revision, Claim: claim,
		}
		assert.Equal(t, lost, r.looks[2])
		assert.True(t, lost.Refutes())
		for i, look := range r.looks {
			assert.Equal(t, i == 2, look.Refutes(), "%+v", look)
		}
	})
}

// The server knows before the client's claim has ended that there is no such lease.
func TestKeepersLookWhenAKeepaliveEndsTooSoon(t *testing.T) {
	for name, gone := range map[string]bool{"the key is gone": true, "the key is there": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				r := start(t, client.Services{Store: store, Lessor: &renter{
					store: store, every: 800 * time.Millisecond, renewals: 1, reason: rpctypes.ErrLeaseNotFound,
				}}, 1)
				time.Sleep(700 * time.Millisecond)
				if gone {
					store.mu.Lock()
					delete(store.keys, r.leaseKey(1))
					store.mu.Unlock()
				}
				time.Sleep(time.Second)
				r.end(t.Context())
				looks := map[bool]int{}
				for _, look := range r.looks {
					if look.Lease == 1 {
						looks[look.Refutes()]++
					}
				}
				assert.Len(t, r.ofLease(history.LeaseExpired), 1)
				want := map[bool]int{false: 1} // in its turn
				want[gone]++                   // at the end
				assert.Equal(t, want, looks)
			})
		})
	}
}

func TestKeepersRevokeALeaseWithoutAKey(t *testing.T) {
	for name, lost := range map[string]bool{"nothing was written": true, "it may have been written": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				lessor := &renter{store: store, attachErr: rpctypes.ErrTimeout, lost: lost, renewals: 100}
				r := start(t, client.Services{Store: store, Lessor: lessor}, 1)
				r.end(t.Context())
				assert.Equal(t, []int64{1}, lessor.revoked)
				require.GreaterOrEqual(t, len(r.rec.Leases), 2)
				assert.Equal(t, history.LeaseFailed, r.rec.Leases[0].Kind)
				require.ErrorIs(t, r.rec.Leases[0].Err, rpctypes.ErrTimeout)
				assert.Equal(t, history.LeaseGranted, r.rec.Leases[1].Kind)
				assert.Contains(t, store.keys, r.leaseKey(2))
			})
		})
	}
}

func TestKeepersWithoutALeaseTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := start(t, client.Services{Store: store, Lessor: &renter{store: store, grantErr: rpctypes.ErrNoLeader, renewals: 100}}, 1)
		r.end(t.Context())
		require.GreaterOrEqual(t, len(r.rec.Leases), 2)
		assert.Equal(t, []history.LeaseEvent{
			{Kind: history.LeaseFailed, At: 10 * time.Millisecond, Err: rpctypes.ErrNoLeader},
			{Kind: history.LeaseGranted, At: 20*time.Millisecond + regrantPause},
		}, r.rec.Leases[:2])
	})
}

func TestKeepersWhoseLooksFailGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := start(t, client.Services{Store: store, Lessor: &renter{store: store, renewals: 100}}, 1)
		time.Sleep(100 * time.Millisecond)
		store.mu.Lock()
		store.after = func(history.Kind) error { return errors.New("no answer") }
		store.mu.Unlock()
		time.Sleep(3*time.Second + answerTime)
		r.end(t.Context())
		assert.Empty(t, r.looks, "a look that fails says nothing")
		assert.Empty(t, r.ofLease(history.LeaseExpired))
		assert.Len(t, r.ofLease(history.LeaseRenewed), 4)
	})
}

// A read without an answer is given up, and the next one is made.
func TestKeepersAreNotBlindedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		var gets atomic.Int64
		r := start(t, client.Services{Store: silentOn{store, "/quorate-lab-leases/", &gets}, Lessor: &renter{store: store, renewals: 100}}, 1)
		time.Sleep(2*lookEvery + lookTimeout + lookEvery/2)
		r.end(t.Context())
		assert.EqualValues(t, 2, gets.Load())
		require.Len(t, r.looks, 1)
		assert.Equal(t, lookEvery+lookTimeout+lookEvery+10*time.Millisecond, r.looks[0].Asked)
	})
}

// silentOn is a store that does not answer the first get of a key with the prefix.
type silentOn struct {
	*memory
	prefix string
	gets   *atomic.Int64
}

func (s silentOn) Get(ctx context.Context, key string, serializable bool) (client.Answer, error) {
	if strings.HasPrefix(key, s.prefix) && s.gets.Add(1) == 1 {
		<-ctx.Done()
		return client.Answer{}, ctx.Err()
	}
	return s.memory.Get(ctx, key, serializable)
}
