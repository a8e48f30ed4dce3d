package concurrency_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func TestFreeLockTakesOneRequest(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		m := NewMutex(s, "lock")
		require.Empty(t, m.Key())
		f.settle(t)
		before := f.Count("*")
		require.NoError(t, m.Lock(t.Context()))
		require.Equal(t, 1, f.Count("Txn"))
		require.Equal(t, before+1, f.Count("*"))
		require.Equal(t, keyOf(s, "lock"), m.Key())
		require.Equal(t, f.Get(m.Key()).CreateRevision, m.Header().Revision)
		require.Empty(t, f.Get(m.Key()).Value)
		require.Equal(t, int64(s.Lease()), f.Get(m.Key()).Lease)
		require.True(t, owns(t, f.client, m))

		require.NoError(t, m.Unlock(t.Context()))
		require.Empty(t, f.keys(t, "lock"))
		require.False(t, owns(t, f.client, m))
	})
}

// Waiting sends no requests while the lock is held, however many others come and go.
// An unlock wakes the next waiter, not all of them.
func TestWaitingForALockDoesNotPoll(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		waiting := clienttest.Go(func() error { return NewMutex(f.session(t), "lock").Lock(t.Context()) })
		requireWaiting(t, waiting)
		behind := clienttest.Go(func() error { return NewMutex(f.session(t), "lock").Lock(t.Context()) })
		requireWaiting(t, behind)
		before, reads := f.Count("Txn"), f.Count("Range")
		time.Sleep(time.Hour)
		requireWaiting(t, waiting)
		require.Equal(t, before, f.Count("Txn"))
		require.Equal(t, reads, f.Count("Range"))
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, requireNow(t, waiting))
		requireWaiting(t, behind)
		require.Equal(t, before+2, f.Count("Txn"), "the unlock, and one read")
	})
}

func TestTryLock(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		one, other := NewMutex(f.session(t), "lock"), NewMutex(f.session(t), "lock")
		require.NoError(t, one.TryLock(t.Context()))
		require.True(t, owns(t, f.client, one))
		require.NoError(t, one.TryLock(t.Context()), "a lock that the session holds already")

		synctest.Wait()
		before, rev := f.Count("*"), f.Revision()
		require.Equal(t, ErrLocked, other.TryLock(t.Context()))
		require.Equal(t, before+1, f.Count("*"))
		require.Equal(t, rev, f.Revision(), "nothing was written")
		require.Equal(t, ErrLockReleased, other.Unlock(t.Context()))
		require.False(t, owns(t, f.client, other))

		require.NoError(t, one.Unlock(t.Context()))
		require.NoError(t, other.TryLock(t.Context()))
		require.Equal(t, []string{other.Key()}, f.keys(t, "lock"))
	})
}

func TestUnlock(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		m := NewMutex(s, "lock")
		require.Equal(t, ErrLockReleased, m.Unlock(t.Context()), "never locked")
		require.NoError(t, m.Lock(t.Context()))

		require.Equal(t, context.Canceled, m.Unlock(clienttest.Ended(t)))
		require.True(t, owns(t, f.client, m), "an Unlock that failed has not unlocked")
		require.NoError(t, m.Unlock(t.Context()))
		require.Equal(t, ErrLockReleased, m.Unlock(t.Context()))

		require.NoError(t, m.Lock(t.Context()))
		require.NoError(t, f.ExpireLease(int64(s.Lease())))
		require.NoError(t, m.Unlock(t.Context()), "a lock that was lost")
	})
}

// Unlock spares a later key with the same name.
func TestUnlockDeletesOnlyItsOwnKey(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		m := lock(t, f.session(t), "lock")
		key := m.Key()
		f.remove(t, key)
		clienttest.Must(f.client.Put(t.Context(), key, "another's"))
		require.NoError(t, m.Unlock(t.Context()))
		require.Equal(t, "another's", string(f.Get(key).GetValue()))
	})
}

func TestLocker(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		l := NewLocker(s, "lock")
		l.Lock()
		require.Equal(t, []string{keyOf(s, "lock")}, f.keys(t, "lock"))
		l.Unlock()
		require.Empty(t, f.keys(t, "lock"))
		require.PanicsWithValue(t, ErrLockReleased, l.Unlock)
		require.NoError(t, s.Close())
		require.PanicsWithValue(t, ErrSessionExpired, l.Lock)
	})
}

// When the key ahead of a waiter is deleted, it waits for the one before that.
func TestLockWaitsForAllAhead(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		between := f.session(t)
		gone := clienttest.Go(func() error { return NewMutex(between, "lock").Lock(t.Context()) })
		last := clienttest.Go(func() error { return NewMutex(f.session(t), "lock").Lock(t.Context()) })
		require.NoError(t, f.ExpireLease(int64(between.Lease())))
		require.ErrorIs(t, requireNow(t, gone), ErrSessionExpired)
		requireWaiting(t, last)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, requireNow(t, last))
	})
}

// A Lock waits for the end of an Unlock of its session.
func TestLockWaitsForAnUnlockOfItsSession(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		m, next := lock(t, s, "lock"), NewMutex(s, "lock")
		release := make(chan struct{})
		f.Once("Txn", func(call *fakeetcd.Call) { _ = call.Hold(release) })
		unlocking := clienttest.Go(func() error { return m.Unlock(t.Context()) })
		locking := clienttest.Go(func() error { return next.Lock(t.Context()) })
		requireWaiting(t, locking)
		close(release)
		require.NoError(t, requireNow(t, unlocking))
		require.NoError(t, requireNow(t, locking))
		require.True(t, owns(t, f.client, next))
	})
}
