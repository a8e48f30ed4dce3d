package concurrency_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

// deletes reports whether a call is a transaction that deletes, and not one that reads.
func deletes(call *fakeetcd.Call) bool {
	txn, _ := call.Request.(*pb.TxnRequest)
	return len(txn.GetFailure()) == 0 && len(txn.GetSuccess()) == 1 && txn.Success[0].GetRequestDeleteRange() != nil
}

// delayDelete stops a member that has received the next request to delete a key. The member executes it after resume.
func delayDelete(t *testing.T, f fake, received func(*fakeetcd.Call)) (resume func()) {
	t.Helper()
	var stopped atomic.Bool
	release := make(chan struct{})
	f.On("Txn", func(call *fakeetcd.Call) {
		if !deletes(call) || stopped.Swap(true) {
			return
		}
		received(call)
		<-release
		_, err := call.Execute()
		assert.NoError(t, err)
	})
	return func() {
		require.True(t, stopped.Load())
		close(release)
		synctest.Wait()
	}
}

// holdAnswer executes a call and withholds its answer.
func holdAnswer(call *fakeetcd.Call) {
	_, _ = call.Execute()
	neverAnswer(call)
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

// A failed Lock's deletion is executed after the session has locked again.
func TestLateCleanupDoesNotDeleteTheNextLock(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		f.Once("Txn", holdAnswer)
		resume := delayDelete(t, f, (*fakeetcd.Call).BreakConn)
		require.Equal(t, context.DeadlineExceeded, NewMutex(s, "lock").Lock(grpctest.Within(t, time.Second)))
		synctest.Wait()
		require.Empty(t, f.keys(t, "lock"))

		m := lock(t, s, "lock")
		resume()
		require.True(t, owns(t, f.client, m))
	})
}

// A failed Unlock's deletion is executed late. Lock puts a new key, which that deletion spares.
func TestLateUnlockDoesNotDeleteTheNextLock(t *testing.T) {
	for name, next := range map[string]func(s *Session, m *Mutex) *Mutex{
		"the same mutex": func(_ *Session, m *Mutex) *Mutex { return m },
		"another mutex":  func(s *Session, _ *Mutex) *Mutex { return NewMutex(s, "lock") },
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 3, func(t *testing.T, f fake) {
				s := f.session(t)
				m := lock(t, s, "lock")
				resume := delayDelete(t, f, func(*fakeetcd.Call) {})
				require.Equal(t, context.DeadlineExceeded, m.Unlock(grpctest.Within(t, time.Second)))
				m = next(s, m)
				require.NoError(t, m.Lock(t.Context()))
				resume()
				require.True(t, owns(t, f.client, m))
				require.NoError(t, m.Unlock(t.Context()))
				require.Empty(t, f.keys(t, "lock"))
			})
		})
	}
}

// An unknown outcome stays unknown even if the outcome of the request that replaced the key is known. The next call
// starts anew.
func TestUncertainOutcomeOfACall(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		m := lock(t, s, "lock")
		f.Once("Txn", neverAnswer)
		require.Equal(t, context.DeadlineExceeded, m.Unlock(grpctest.Within(t, time.Second)))
		release := make(chan struct{})
		f.Once("Txn", func(call *fakeetcd.Call) {
			call.BreakConn()
			<-release
			_, err := call.Execute()
			assert.NoError(t, err)
		})
		require.NoError(t, m.Lock(t.Context()))
		require.NoError(t, m.Unlock(t.Context()))
		close(release)
		synctest.Wait()
		require.Empty(t, f.keys(t, "lock"), "the late key was cleaned up")

		holder := lock(t, f.session(t), "lock")
		time.Sleep(20 * time.Minute) // the cleanup in the background ends
		before := f.Count("Txn")
		require.Equal(t, ErrLocked, m.TryLock(t.Context()))
		require.Equal(t, before+1, f.Count("Txn"))
		require.NoError(t, holder.Unlock(t.Context()))
	})
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

// The cleanup ends when the deletion is not permitted, and goes on after a fault that may pass.
func TestCleanupEndsWhenItIsRefused(t *testing.T) {
	for err, left := range map[error]int{rpctypes.ErrGRPCPermissionDenied: 2, rpctypes.ErrGRPCNoLeader: 1, errReset: 1} {
		withFake(t, 1, func(t *testing.T, f fake) {
			lock(t, f.session(t), "lock")
			s := f.session(t)
			waiting := clienttest.Go(func() error { return NewMutex(s, "lock").Lock(grpctest.Within(t, time.Second)) })
			hook := f.On("Txn", func(call *fakeetcd.Call) { call.Answer(nil, err) })
			require.Equal(t, context.DeadlineExceeded, <-waiting)
			time.Sleep(time.Minute)
			hook.Remove()
			time.Sleep(time.Minute)
			require.Len(t, f.keys(t, "lock"), left, "%v", err)
		})
	}
}

// The cleanup spares a key of the same name with another lease. A session with WithLease does not clean up: the key may
// be another session's.
func TestCleanupSparesKeysOfOthers(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		f.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
		require.NoError(t, lock(t, s, "lock").Unlock(t.Context()))
		f.put(t, keyOf(s, "lock"), "")
		time.Sleep(time.Minute)
		require.NotNil(t, f.Get(keyOf(s, "lock")))

		f.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
		require.NoError(t, lock(t, f.session(t, WithLease(s.Lease())), "given").Unlock(t.Context()))
		m := lock(t, s, "given")
		time.Sleep(time.Minute)
		require.True(t, owns(t, f.client, m))
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

// A Lock gives up while a TryLock of its session is under way, and leaves the key to it. The TryLock is refused without
// seeing the key, which is then deleted.
func TestKeyLeftToARefusedTryLockIsDeleted(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		s := f.session(t)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := clienttest.Go(func() error { return NewMutex(s, "lock").Lock(ctx) })
		release := make(chan struct{})
		f.Once("Txn", func(call *fakeetcd.Call) {
			_ = call.Hold(release)
			call.Answer(nil, rpctypes.ErrGRPCPermissionDenied)
		})
		refused := clienttest.Go(func() error { return NewMutex(s, "lock").TryLock(t.Context()) })
		cancel()
		require.Equal(t, context.Canceled, requireNow(t, waiting))
		require.Equal(t, []string{holder.Key(), keyOf(s, "lock")}, f.keys(t, "lock"))
		close(release)
		require.Equal(t, rpctypes.ErrPermissionDenied, requireNow(t, refused))
		synctest.Wait()
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
	})
}

// slowWatcher takes a second to notice that a context has ended.
type slowWatcher struct {
	clientv3.Watcher
	returned atomic.Bool
}

func (w *slowWatcher) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	<-ctx.Done()
	time.Sleep(time.Second)
	w.returned.Store(true)
	ch := make(chan clientv3.WatchResponse)
	close(ch)
	return ch
}

// When Orphan or Close has returned, nothing of the session runs any more.
func TestSessionEndWaitsForItsCleanups(t *testing.T) {
	for name, end := range map[string]func(*Session) error{
		"Orphan": func(s *Session) error { s.Orphan(); return nil },
		"Close":  (*Session).Close,
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				w := &slowWatcher{Watcher: f.client.Watcher}
				f.client.Watcher = w
				s := f.session(t)
				f.Once("Txn", func(call *fakeetcd.Call) { call.BreakConn() })
				lock(t, s, "lock")
				require.NoError(t, end(s))
				require.True(t, w.returned.Load())
			})
		})
	}
}
