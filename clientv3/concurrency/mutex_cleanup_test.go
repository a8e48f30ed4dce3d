package concurrency_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

// holdAnswer executes a call and withholds its answer.
func holdAnswer(call *fakeetcd.Call) {
	_, _ = call.Execute()
	neverAnswer(call)
}

// The cluster becomes unreachable while Lock waits. The key is deleted when it is reachable again, and Lock does not
// wait for that.
func TestCleanupIsBounded(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		core, logs := observer.New(zap.WarnLevel)
		clientv3.WithZapLogger(zap.New(core))(f.client)
		s := f.session(t)
		m := NewMutex(s, "lock")
		holder, other := lock(t, f.session(t), "lock"), NewMutex(f.session(t), "other")
		waiting := clienttest.Go(func() error { return m.Lock(grpctest.Within(t, 5*time.Second)) })
		start := time.Now()
		f.stop()
		require.Equal(t, context.DeadlineExceeded, <-waiting)
		require.LessOrEqual(t, time.Since(start), 8*time.Second, "3 s after the context has ended")
		require.Equal(t, ErrLockReleased, m.Unlock(t.Context()))

		start = time.Now()
		require.Equal(t, context.DeadlineExceeded, other.Lock(grpctest.Within(t, 5*time.Second)))
		require.LessOrEqual(t, time.Since(start), 8*time.Second)

		notes := logs.FilterFieldKey("key").All()
		require.Len(t, notes, 2)
		require.Equal(t, keyOf(s, "lock"), notes[0].ContextMap()["key"])

		f.start()
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
	})
}

// A stopped member has received the request, and executes it long after Lock has failed.
func TestLateLockHasNoOwner(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		release := make(chan struct{})
		late := f.Once("Txn", func(call *fakeetcd.Call) {
			call.BreakConn()
			<-release
			_, err := call.Execute()
			assert.NoError(t, err)
		})
		s := f.session(t)
		m := NewMutex(s, "lock")
		require.NoError(t, m.Lock(t.Context()))
		require.Equal(t, 1, late.Ran())
		require.True(t, owns(t, f.client, m))
		require.NoError(t, m.Unlock(t.Context()))

		close(release)
		synctest.Wait()
		require.Equal(t, 2, f.PutCount(keyOf(s, "lock")), "the late request has put the key")
		require.Empty(t, f.keys(t, "lock"))

		again := lock(t, s, "lock")
		synctest.Wait()
		require.True(t, owns(t, f.client, again), "a held key is not cleaned up")
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// The request that puts the key is executed after Lock has ended, together with its session, and before what Lock sends
// then. A session whose context has ended does nothing in the background.
func TestLockThatEndsWithItsSession(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		ctx, cancel := context.WithCancel(t.Context())
		f.Once("Txn", func(call *fakeetcd.Call) {
			cancel()
			time.Sleep(time.Second)
			holdAnswer(call)
		})
		f.Once("Txn", func(*fakeetcd.Call) { time.Sleep(2 * time.Second) })
		require.Equal(t, context.Canceled, NewMutex(f.session(t, WithContext(ctx)), "lock").Lock(ctx))
		time.Sleep(2 * time.Second)
		require.Empty(t, f.keys(t, "lock"))
	})
}

// The late request is executed after the session has locked again: it finds the lock's key.
func TestLateLockDoesNotDisturbTheNext(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		release := make(chan struct{})
		f.Once("Txn", func(call *fakeetcd.Call) {
			<-release
			_, err := call.Execute()
			assert.NoError(t, err)
		})
		require.Equal(t, context.DeadlineExceeded, NewMutex(s, "lock").Lock(grpctest.Within(t, time.Second)))
		m := lock(t, s, "lock")
		rev := f.Get(m.Key()).CreateRevision
		close(release)
		time.Sleep(time.Minute)
		require.True(t, owns(t, f.client, m))
		require.Equal(t, rev, f.Get(m.Key()).CreateRevision)
		require.NoError(t, m.Unlock(t.Context()))
		synctest.Wait()
		require.Empty(t, f.keys(t, "lock"))
	})
}

// The cleanup lasts for a quarter of an hour.
func TestCleanupEnds(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		f.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
		require.NoError(t, lock(t, s, "lock").Unlock(t.Context()))
		key := keyOf(s, "lock")
		put := func() {
			clienttest.Must(f.client.Put(t.Context(), key, "", clientv3.WithLease(s.Lease())))
			synctest.Wait()
		}
		put()
		require.Nil(t, f.Get(key))
		f.stop()
		time.Sleep(10 * time.Second)
		f.start()
		time.Sleep(14 * time.Minute)
		put()
		require.Nil(t, f.Get(key))
		time.Sleep(time.Minute)
		put()
		require.NotNil(t, f.Get(key))

		// Another failed attempt restarts the cleanup.
		f.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
		require.NoError(t, NewMutex(s, "lock").TryLock(t.Context()))
		time.Sleep(time.Minute)
		require.NotNil(t, f.Get(key), "the session holds the lock")
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

// A mutex that has lost its key without noticing does not keep another mutex's key.
func TestLockThatGivesUpIsNotKeptByALostOne(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		lost := lock(t, s, "lock")
		f.remove(t, lost.Key())
		holder := lock(t, f.session(t), "lock")
		require.Equal(t, context.DeadlineExceeded, NewMutex(s, "lock").Lock(grpctest.Within(t, time.Second)))
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
		require.Equal(t, context.DeadlineExceeded, lost.Lock(grpctest.Within(t, time.Second)))
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
		require.Equal(t, ErrLockReleased, lost.Unlock(t.Context()))
	})
}

// A leftover whose key cannot be watched is deleted again, less and less often.
func TestCleanupWithoutAWatch(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		f.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
		clienttest.RefuseWatches(f.Cluster, rpctypes.ErrPermissionDenied)
		require.NoError(t, lock(t, s, "lock").Unlock(t.Context()))
		before := f.Count("Txn")
		time.Sleep(5 * time.Minute)
		require.Less(t, f.Count("Txn")-before, 140, "two in 5 to 10 s")
	})
}
