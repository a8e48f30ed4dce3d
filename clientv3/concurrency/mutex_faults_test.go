package concurrency_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// Lock returns when it can no longer succeed, although the holder keeps the lock.
func TestLockEndsWhenItIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, f fake, s *Session){
		"its lease expires": func(t *testing.T, f fake, s *Session) {
			require.NoError(t, f.ExpireLease(int64(s.Lease())))
		},
		"its key is deleted": func(t *testing.T, f fake, s *Session) {
			f.remove(t, keyOf(s, "lock"))
		},
		"its key is deleted and put again": func(t *testing.T, f fake, s *Session) {
			f.remove(t, keyOf(s, "lock"))
			_, err := f.client.Put(t.Context(), keyOf(s, "lock"), "")
			require.NoError(t, err)
		},
		"its session is closed": func(t *testing.T, _ fake, s *Session) {
			require.NoError(t, s.Close())
		},
		"its session is closed and the revocation fails": func(t *testing.T, f fake, s *Session) {
			f.Once("LeaseRevoke", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
			require.Equal(t, rpctypes.ErrPermissionDenied, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 3, func(t *testing.T, f fake) {
				lock(t, f.session(t), "lock")
				s := f.session(t)
				m := NewMutex(s, "lock")
				waiting := goes(func() error { return m.Lock(t.Context()) })
				requireWaiting(t, waiting)
				lose(t, f, s)
				require.Equal(t, ErrSessionExpired, requireNow(t, waiting))
				require.Equal(t, ErrLockReleased, m.Unlock(t.Context()))
			})
		})
	}
}

func TestLockOfASessionThatHasEnded(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		ctx, cancel := context.WithCancel(t.Context())
		s := f.session(t, WithContext(ctx))
		cancel()
		<-s.Done()
		require.Equal(t, ErrSessionExpired, NewMutex(s, "lock").Lock(t.Context()))
		require.Equal(t, ErrSessionExpired, NewMutex(s, "lock").TryLock(t.Context()))
		require.Zero(t, f.Count("Txn"))
	})
}

// etcd's lock service orphans its sessions before it locks: the clients keep their leases alive.
func TestLockOverAnOrphanedSession(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		s := f.session(t)
		s.Orphan()
		waiting := goes(func() error { return NewMutex(s, "lock").Lock(t.Context()) })
		requireWaiting(t, waiting)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, requireNow(t, waiting))
	})
}

func TestLockLeavesTheQueueWhenItsContextEnds(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		m := NewMutex(f.session(t), "lock")
		require.Equal(t, context.DeadlineExceeded, m.Lock(within(t, time.Second)))
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
		require.Equal(t, ErrLockReleased, m.Unlock(t.Context()))
		require.False(t, owns(t, f.client, m))
	})
}

// A mutex withdraws while another one of its session still holds the key.
func TestLockThatGivesUpLeavesThePlaceOfAnother(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		s := f.session(t)
		waiting := goes(func() error { return NewMutex(s, "lock").Lock(t.Context()) })
		require.Equal(t, context.DeadlineExceeded, NewMutex(s, "lock").Lock(within(t, time.Second)))
		requireWaiting(t, waiting)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, requireNow(t, waiting))
		require.Equal(t, []string{keyOf(s, "lock")}, f.keys(t, "lock"))
	})
}

// The watches of the waiter are compacted while its connection is broken.
func TestLockSurvivesACompaction(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		m := NewMutex(f.session(t), "lock")
		waiting := goes(func() error { return m.Lock(t.Context()) })
		f.stop()
		for range 3 {
			f.put(t, "other", "")
		}
		require.NoError(t, f.Compact(f.Revision()))
		f.start()
		time.Sleep(time.Minute)
		requireWaiting(t, waiting)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, <-waiting)
		require.True(t, owns(t, f.client, m))
	})
}

// cancelWatches answers every watch with a cancellation.
func cancelWatches(f fake, reason string) {
	f.On("Watch", func(call *fakeetcd.Call) {
		call.OnSend(func(resp proto.Message) bool {
			w := resp.(*pb.WatchResponse)
			if w.Created {
				w.Canceled, w.CancelReason = true, reason
			}
			return true
		})
		_, _ = call.Execute() // ends with the client's stream
	})
}

// A refused watch is an error, and does not grant the lock.
func TestLockWhoseWatchIsRefused(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		cancelWatches(f, rpctypes.ErrGRPCPermissionDenied.Error())
		m := NewMutex(f.session(t), "lock")
		require.Equal(t, rpctypes.ErrPermissionDenied, m.Lock(t.Context()))
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
	})
}

// Nor does a watch that is closed without a reason.
func TestLockWhoseWatcherIsClosed(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		holder := lock(t, f.session(t), "lock")
		waiting := goes(func() error { return NewMutex(f.session(t), "lock").Lock(t.Context()) })
		require.NoError(t, f.client.Watcher.Close())
		require.ErrorContains(t, requireNow(t, waiting), "watch was closed")
		require.Equal(t, []string{holder.Key()}, f.keys(t, "lock"))
	})
}

// When the key ahead is gone, a read decides who holds the lock.
func TestLockIsProvenByARead(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, f fake, s *Session){
		"its lease has expired": func(t *testing.T, f fake, s *Session) {
			require.NoError(t, f.ExpireLease(int64(s.Lease())))
		},
		"its key is another": func(t *testing.T, f fake, s *Session) {
			f.remove(t, keyOf(s, "lock"))
			f.put(t, keyOf(s, "lock"), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				holder := lock(t, f.session(t), "lock")
				s := f.session(t)
				waiting := goes(func() error { return NewMutex(s, "lock").Lock(t.Context()) })
				release := make(chan struct{})
				f.On("Txn", func(call *fakeetcd.Call) {
					if !writes(call) {
						_ = call.Hold(release)
					}
				})
				require.NoError(t, holder.Unlock(t.Context()))
				requireWaiting(t, waiting)
				lose(t, f, s)
				close(release)
				require.Equal(t, ErrSessionExpired, requireNow(t, waiting))
			})
		})
	}
}

// A response with neither the own key nor another one does not grant the lock.
func TestEmptyResponseDoesNotAcquireTheLock(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		nothing := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
		for _, method := range []func(*Mutex, context.Context) error{(*Mutex).Lock, (*Mutex).TryLock} {
			f.Once("Txn", func(call *fakeetcd.Call) {
				call.Answer(&pb.TxnResponse{
					Header: &pb.ResponseHeader{Revision: 1}, Responses: []*pb.ResponseOp{nothing, nothing},
				}, nil)
			})
			require.Equal(t, ErrSessionExpired, method(NewMutex(s, "lock"), t.Context()))
		}
	})
}
