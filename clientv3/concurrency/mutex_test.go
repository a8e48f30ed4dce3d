package concurrency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
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

// waiters are the calls that wait in the queue "lock" while so many others hold it.
var waiters = map[string]struct {
	holders int
	wait    func(ctx context.Context, s *Session) error
}{
	"Lock":    {1, func(ctx context.Context, s *Session) error { return NewMutex(s, "lock").Lock(ctx) }},
	"Acquire": {2, func(ctx context.Context, s *Session) error { return NewSemaphore(s, "lock", 2).Acquire(ctx, "") }},
}

// waiting is a call that waits.
type waiting struct {
	session *Session
	end     context.CancelFunc // of the session's context
	cancel  context.CancelFunc // of its context
	holder  *Session           // one of those that hold
}

// A call returns when it can no longer succeed, although the holders stay. If its key is gone when a holder leaves, a
// read shows that.
func TestWaitingEnds(t *testing.T) {
	type ends = func(t *testing.T, f fake, w waiting)
	expires := func(t *testing.T, f fake, w waiting) { require.NoError(t, f.ExpireLease(int64(w.session.Lease()))) }
	deleted := func(t *testing.T, f fake, w waiting) { f.remove(t, keyOf(w.session, "lock")) }
	replaced := func(t *testing.T, f fake, w waiting) {
		deleted(t, f, w)
		f.put(t, keyOf(w.session, "lock"), "by another")
	}
	beforeRead := func(ends ends) ends {
		return func(t *testing.T, f fake, w waiting) {
			release := make(chan struct{})
			f.On("Txn", func(call *fakeetcd.Call) {
				if !writes(call) {
					_ = call.Hold(release)
				}
			})
			require.NoError(t, w.holder.Close())
			synctest.Wait()
			ends(t, f, w)
			close(release)
		}
	}
	for name, tt := range map[string]struct {
		end  ends
		want error
	}{
		"its lease expires":               {expires, ErrSessionExpired},
		"its key is deleted":              {deleted, ErrSessionExpired},
		"its key is deleted and put":      {replaced, ErrSessionExpired},
		"its lease expires before a read": {beforeRead(expires), ErrSessionExpired},
		"its key is put before a read":    {beforeRead(replaced), ErrSessionExpired},
		"its session is closed":           {func(t *testing.T, _ fake, w waiting) { require.NoError(t, w.session.Close()) }, ErrSessionExpired},
		"its session is closed and the revocation fails": {func(t *testing.T, f fake, w waiting) {
			f.Once("LeaseRevoke", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
			require.Equal(t, rpctypes.ErrPermissionDenied, w.session.Close())
		}, ErrSessionExpired},
		"its context ends": {func(_ *testing.T, _ fake, w waiting) { w.cancel() }, context.Canceled},
		"both contexts end": {func(_ *testing.T, _ fake, w waiting) {
			w.end()
			w.cancel()
		}, context.Canceled},
		"its watch is refused": {func(_ *testing.T, f fake, _ waiting) {
			cancelWatches(f, rpctypes.ErrGRPCPermissionDenied.Error())
			f.Member(0).BreakConnections()
			time.Sleep(time.Minute)
		}, rpctypes.ErrPermissionDenied},
		"its client is closed": {func(t *testing.T, f fake, _ waiting) { require.NoError(t, f.client.Close()) }, context.Canceled},
		"its Watcher is closed": {func(t *testing.T, f fake, _ waiting) {
			require.NoError(t, f.client.Watcher.Close())
		}, errors.New("concurrency: the watch was closed")},
	} {
		for method, call := range waiters {
			t.Run(name+", "+method, func(t *testing.T) {
				withFake(t, 1, func(t *testing.T, f fake) {
					own, end := context.WithCancel(f.client.Ctx())
					ctx, cancel := context.WithCancel(t.Context())
					w := waiting{f.session(t, WithContext(own)), end, cancel, nil}
					for range call.holders {
						w.holder = f.session(t)
						require.NoError(t, call.wait(t.Context(), w.holder))
					}
					result := clienttest.Go(func() error { return call.wait(ctx, w.session) })
					requireWaiting(t, result)
					tt.end(t, f, w)
					require.Equal(t, tt.want, requireNow(t, result))
					if w.session.Err() == nil || own.Err() != nil && f.client.Ctx().Err() == nil {
						require.Zero(t, f.Get(keyOf(w.session, "lock")).GetLease(), "its key is not left")
					}
				})
			})
		}
	}
}

// etcd's lock service orphans its sessions before it locks: the clients keep their leases alive. Other programs give
// NewSession a context that ends with the function that calls it.
func TestLockOverAnOrphanedSession(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		orphan := f.session(t)
		orphan.Orphan()
		holder := lock(t, orphan, "lock")
		s := f.session(t, WithContext(clienttest.Ended(t)), WithLease(f.session(t).Lease()))
		waiting := clienttest.Go(func() error { return NewMutex(s, "lock").Lock(t.Context()) })
		requireWaiting(t, waiting)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, requireNow(t, waiting))
	})
}

// A mutex withdraws while another one of its session still holds the key, or tries to lock.
func TestLockThatGivesUpLeavesThePlaceOfAnother(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		s := f.session(t)
		waiting := clienttest.Go(func() error { return NewMutex(s, "lock").Lock(t.Context()) })
		require.Equal(t, context.DeadlineExceeded, NewMutex(s, "lock").Lock(grpctest.Within(t, time.Second)))
		require.Equal(t, ErrLocked, NewMutex(s, "lock").TryLock(t.Context()))
		requireWaiting(t, waiting)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, requireNow(t, waiting))
		require.Equal(t, []string{keyOf(s, "lock")}, f.keys(t, "lock"))
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

// The history behind a waiter's read is compacted at every watch, and then while its watch is broken, in which a holder has left.
func TestWaitingSurvivesACompaction(t *testing.T) {
	for method, call := range waiters {
		t.Run(method, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				var holder *Session
				for range call.holders {
					holder = f.session(t)
					require.NoError(t, call.wait(t.Context(), holder))
				}
				hook := cancelWatches(f, rpctypes.ErrCompacted.Error())
				waiting := clienttest.Go(func() error { return call.wait(t.Context(), f.session(t)) })
				time.Sleep(time.Minute)
				require.Less(t, f.Count("Txn"), 150, "it reads again every half to one and a half seconds")
				hook.Remove()
				for _, left := range []bool{false, true} {
					f.stop()
					if left {
						require.NoError(t, f.ExpireLease(int64(holder.Lease())))
					}
					require.NoError(t, f.Compact(f.put(t, "other", "")))
					f.start()
					time.Sleep(time.Minute)
					require.Equal(t, left, len(waiting) > 0)
				}
				require.NoError(t, <-waiting)
			})
		})
	}
}

// cancelWatches cancels every watch when it is created. Without a reason the response has no header, like that of a proxy.
func cancelWatches(f fake, reason string) *fakeetcd.Hook {
	return f.On("Watch", func(call *fakeetcd.Call) {
		call.OnSend(func(resp proto.Message) bool {
			time.Sleep(time.Millisecond)
			w := resp.(*pb.WatchResponse)
			if w.Created {
				w.Canceled, w.CancelReason = true, reason
			}
			if reason == "" {
				w.Header = nil
			}
			return true
		})
		_, _ = call.Execute() // ends with the client's stream
	})
}

// A response with neither the own key nor another one does not grant the lock.
func TestEmptyResponseDoesNotAcquireTheLock(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		nothing := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
		for _, method := range []func(*Mutex, context.Context) error{(*Mutex).Lock, (*Mutex).TryLock} {
			for _, responses := range [][]*pb.ResponseOp{{nothing, nothing}, {nothing}, nil} {
				f.Once("Txn", func(call *fakeetcd.Call) { call.Answer(&pb.TxnResponse{Responses: responses}, nil) })
				require.Equal(t, ErrSessionExpired, method(NewMutex(s, "lock"), t.Context()))
			}
		}
	})
}

// A call whose context has already ended sends nothing, so it leaves no key.
func TestCallsWithAnEndedContextSendNothing(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t, WithTTL(100000))
		held, free := lock(t, s, "held"), NewMutex(s, "free")
		synctest.Wait()
		// The connection of the quiet keepalive stream is checked now and then.
		calls := func() int { return f.Count("*") - f.Count("Check") }
		before := calls()
		ended := clienttest.Ended(t)
		require.Equal(t, context.Canceled, free.Lock(ended))
		require.Equal(t, context.Canceled, free.TryLock(ended))
		require.Equal(t, context.Canceled, NewElection(s, "free").Campaign(ended, "x"))
		require.Equal(t, context.Canceled, held.Lock(ended))
		require.Equal(t, context.Canceled, held.Unlock(ended))
		time.Sleep(time.Minute)
		require.Equal(t, before, calls())

		rev := f.Get(held.Key()).CreateRevision
		require.NoError(t, held.Lock(t.Context()))
		require.Equal(t, rev, f.Get(held.Key()).CreateRevision, "the lock was held all the time")
	})
}
