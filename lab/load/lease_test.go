package load

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/lab/history"
)

func (b *book) Lease(e history.LeaseEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases = append(b.leases, e)
}

// renter is a Lessor in memory, for one keeper. Its leases have a TTL of 4 s; they
// are renewed each second.
type renter struct {
	store *memory
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
	return r.store.do(ctx, history.Put, func() {
		r.store.revision++
		r.store.keys[key] = Listed{Key: key, ModRevision: r.store.revision, Value: "of a lease", Version: id}
	})
}

func (r *renter) KeepAlive(ctx context.Context, id int64) iter.Seq2[time.Duration, error] {
	return func(yield func(time.Duration, error) bool) {
		for n := 0; id > 1 || n < r.renewals; n++ {
			if !yield(4*time.Second, nil) {
				return
			}
			sleep(ctx, time.Second)
			if ctx.Err() != nil {
				return
			}
		}
		if r.reason != nil {
			yield(0, r.reason)
		}
	}
}

// ofLease returns the recorded events of one kind.
func (b *book) ofLease(k history.LeaseEventKind) (out []history.LeaseEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.leases {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}

func TestKeepersStartAnewWhenTheKeepaliveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store, lost := &book{}, newMemory(), errors.New("nobody answered")
		l := startAll(Services{Store: store, Lessor: &renter{store: store, renewals: 3, reason: lost}}, b, 1)
		time.Sleep(5 * time.Second)
		end(t.Context(), l)

		granted := b.ofLease(history.LeaseGranted)
		require.Len(t, granted, 2)
		assert.Equal(t, 10*time.Millisecond, granted[0].At)
		expired := b.ofLease(history.LeaseExpired)
		require.Len(t, expired, 1, "the end of the load is no expiry")
		assert.Equal(t, history.LeaseEvent{
			Kind: history.LeaseExpired, At: 3010 * time.Millisecond, Code: history.KeepaliveEnded, Err: lost,
		}, expired[0])
		assert.Equal(t, 3010*time.Millisecond+regrantPause+10*time.Millisecond, granted[1].At)
		renewed := b.ofLease(history.LeaseRenewed)
		require.GreaterOrEqual(t, len(renewed), 4)
		assert.Equal(t, 3990*time.Millisecond, renewed[0].Margin, "counted from the sending of the grant")
		assert.Equal(t, 3*time.Second, renewed[1].Margin, "counted from the renewal before")
		assert.Contains(t, store.keys, "/leases/0")
	})
}

func TestKeepersStartAnewWhenTheKeyIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := &book{}, newMemory()
		l := startAll(Services{Store: store, Lessor: &renter{store: store, renewals: 100}}, b, 1)
		time.Sleep(1200 * time.Millisecond)
		store.mu.Lock()
		delete(store.keys, "/leases/0")
		store.mu.Unlock()
		time.Sleep(time.Second)
		end(t.Context(), l)
		expired := b.ofLease(history.LeaseExpired)
		require.Len(t, expired, 1)
		assert.Equal(t, history.LeaseEvent{Kind: history.LeaseExpired, At: 1510 * time.Millisecond, Code: history.KeyGone}, expired[0])
		assert.Len(t, b.ofLease(history.LeaseGranted), 2)
	})
}

func TestKeepersWithoutALeaseTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := &book{}, newMemory()
		l := startAll(Services{Store: store, Lessor: &renter{store: store, grantErr: rpctypes.ErrNoLeader, renewals: 100}}, b, 1)
		end(t.Context(), l)
		require.GreaterOrEqual(t, len(b.leases), 2)
		assert.Equal(t, []history.LeaseEvent{
			{Kind: history.LeaseFailed, At: 10 * time.Millisecond, Code: "Unavailable", Err: rpctypes.ErrNoLeader},
			{Kind: history.LeaseGranted, At: 20*time.Millisecond + regrantPause},
		}, b.leases[:2])
	})
}

func TestKeepersWhoseLooksFailGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := &book{}, newMemory()
		l := startAll(Services{Store: store, Lessor: &renter{store: store, renewals: 100}}, b, 1)
		time.Sleep(100 * time.Millisecond)
		store.mu.Lock()
		store.after = func(history.Kind) error { return errors.New("no answer") }
		store.mu.Unlock()
		time.Sleep(3 * time.Second)
		end(t.Context(), l)
		assert.Empty(t, b.ofLease(history.LeaseExpired))
		assert.Len(t, b.ofLease(history.LeaseRenewed), 4)
	})
}
