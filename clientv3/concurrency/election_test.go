package concurrency_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/clientv3"
	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

func requireLeader(t *testing.T, e *Election, value string) {
	t.Helper()
	resp := clienttest.Must(e.Leader(t.Context()))
	require.Len(t, resp.Kvs, 1)
	require.Equal(t, value, string(resp.Kvs[0].Value))
}

func TestElection(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.Empty(t, e.Key())
		require.Nil(t, e.Header())
		require.False(t, owns(t, f.client, e))
		_, err := e.Leader(t.Context())
		require.Equal(t, ErrElectionNoLeader, err)
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
		require.NoError(t, e.Resign(t.Context()))

		f.settle(t)
		requests := f.Count("*")
		require.NoError(t, e.Campaign(t.Context(), "ann"))
		require.Equal(t, requests+1, f.Count("*"), "an election without candidates takes one request")
		require.Equal(t, keyOf(s, "office"), e.Key())
		require.Equal(t, f.Get(e.Key()).CreateRevision, e.Rev())
		require.Equal(t, e.Rev(), e.Header().Revision)
		requireLeader(t, e, "ann")

		require.NoError(t, e.Proclaim(t.Context(), "ann at noon"))
		require.Equal(t, f.Revision(), e.Header().Revision)
		requireLeader(t, e, "ann at noon")
		require.Equal(t, int64(s.Lease()), f.Get(e.Key()).Lease)

		require.Equal(t, context.Canceled, e.Resign(clienttest.Ended(t)))
		require.True(t, owns(t, f.client, e))
		before := e.IsOwner()
		require.NoError(t, e.Resign(t.Context()), "it may be repeated")
		require.Equal(t, f.Revision(), e.Header().Revision)
		require.Empty(t, e.Key())
		require.False(t, owns(t, f.client, e))
		require.Empty(t, f.keys(t, "office"))
		require.NoError(t, e.Resign(t.Context()))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))

		require.NoError(t, e.Campaign(t.Context(), "two"))
		require.True(t, owns(t, f.client, e))
		require.False(t, clienttest.Must(f.client.Txn(t.Context()).If(before).Commit()).Succeeded, "a later key of the same name is another one")
	})
}

// The session already leads, perhaps through the process before a restart.
func TestCampaignReplacesTheValue(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		rev := e.Rev()
		require.NoError(t, e.Campaign(t.Context(), "one"))
		require.Equal(t, 1, f.PutCount(e.Key()), "the value is unchanged")

		restarted := NewElection(f.session(t, WithLease(s.Lease())), "office")
		require.NoError(t, restarted.Campaign(t.Context(), "two"))
		requireLeader(t, e, "two")
		require.Equal(t, rev, restarted.Rev())
		require.Equal(t, f.Revision(), restarted.Header().Revision)
	})
}

// A Campaign that cannot write its value withdraws the candidate with the old one.
func TestCampaignThatCannotReplaceTheValueWithdraws(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		refused := f.Nth("Txn", 2, func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.Equal(t, rpctypes.ErrPermissionDenied, e.Campaign(t.Context(), "two"))
		require.Equal(t, 1, refused.Ran())
		require.Empty(t, f.keys(t, "office"))
		require.Empty(t, e.Key())
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
	})
}

func TestProclaimOfALeaderThatWasReplaced(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		require.NoError(t, f.ExpireLease(int64(s.Lease())))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "two"))
		require.Empty(t, e.Key())
		require.Empty(t, f.keys(t, "office"))
		before := f.Count("Txn")
		require.NoError(t, e.Resign(t.Context()))
		require.Equal(t, before, f.Count("Txn"))
	})
}

func TestResumeElection(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		resumed := ResumeElection(s, "office", e.Key(), e.Rev())
		require.Equal(t, e.Key(), resumed.Key())
		require.Equal(t, e.Rev(), resumed.Rev())
		require.True(t, owns(t, f.client, resumed))
		restarted := f.session(t, WithLease(s.Lease()))
		resumed = ResumeElection(restarted, "office/", e.Key(), e.Rev())
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, NewElection(restarted, "office").Campaign(grpctest.Within(t, time.Second), "x"))
		time.Sleep(2 * time.Second) // until that request arrives
		require.NoError(t, resumed.Proclaim(t.Context(), "two"))
		requireLeader(t, resumed, "two")
		require.NoError(t, resumed.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "three"))

		require.NoError(t, e.Campaign(t.Context(), "three"))
		resumed = ResumeElection(s, "office/", e.Key(), e.Rev())
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, resumed.Campaign(grpctest.Within(t, time.Second), "x"))
		time.Sleep(2 * time.Second) // until that request arrives
		requireLeader(t, e, "three")
		require.NoError(t, resumed.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))

		gone := ResumeElection(s, "office", "office/of another time", 2)
		require.Equal(t, ErrElectionNotLeader, gone.Proclaim(t.Context(), "x"))
		require.NoError(t, gone.Resign(t.Context()))

		require.NoError(t, gone.Campaign(t.Context(), "four"))
		require.Equal(t, "office"+keyOf(s, "")[1:], gone.Key(), "it takes the prefix as it is")
		synctest.Wait()
	})
}

// requireObserved returns the next observed leader, which must have the value.
func requireObserved(t *testing.T, ch <-chan *clientv3.GetResponse, value string) *clientv3.GetResponse {
	t.Helper()
	resp := clienttest.Next(t, ch)
	require.NotNil(t, resp, "the channel is closed")
	require.Len(t, resp.Kvs, 1)
	require.Equal(t, value, string(resp.Kvs[0].Value))
	require.GreaterOrEqual(t, resp.Header.Revision, resp.Kvs[0].ModRevision)
	return resp
}

// requireNothing checks that nothing is observed.
func requireNothing(t *testing.T, ch <-chan *clientv3.GetResponse) {
	t.Helper()
	select {
	case resp, open := <-ch:
		require.Fail(t, "observed", "%v %v", resp, open)
	case <-time.After(time.Minute):
	}
}

func requireChannelClosed(t *testing.T, ch <-chan *clientv3.GetResponse) {
	t.Helper()
	synctest.Wait()
	select {
	case resp, open := <-ch:
		require.False(t, open, "%v", resp)
	default:
		require.Fail(t, "the channel is open")
	}
}

func TestObserve(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		ctx, cancel := context.WithCancel(t.Context())
		e := NewElection(f.session(t), "office")
		ch := e.Observe(ctx)
		requireNothing(t, ch)

		require.NoError(t, e.Campaign(t.Context(), "one"))
		last := requireObserved(t, ch, "one")
		require.Equal(t, e.Key(), string(last.Kvs[0].Key))
		requireNothing(t, ch)
		for _, value := range []string{"two", "three", "three"} {
			require.NoError(t, e.Proclaim(t.Context(), value))
			resp := requireObserved(t, ch, value)
			require.Greater(t, resp.Header.Revision, last.Header.Revision)
			last = resp
		}

		other := NewElection(f.session(t), "office")
		won := clienttest.Go(func() error { return other.Campaign(t.Context(), "other") })
		requireNothing(t, ch)
		require.NoError(t, e.Resign(t.Context()))
		requireObserved(t, ch, "other")
		require.NoError(t, <-won)
		require.NoError(t, other.Resign(t.Context()))
		requireNothing(t, ch)
		require.NoError(t, e.Campaign(t.Context(), "again"))
		requireObserved(t, ch, "again")

		cancel()
		requireChannelClosed(t, ch)
	})
}

// A late observer starts with the current leader; a slow reader misses no value of one leader. The client is a
// literal, as in tests of programs.
func TestObserveReadLate(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		f.client = &clientv3.Client{KV: f.client.KV, Watcher: f.client.Watcher, Lease: f.client.Lease}
		e := NewElection(f.session(t, WithContext(t.Context())), "office")
		require.NoError(t, e.Campaign(t.Context(), "0"))
		ch := e.Observe(t.Context())
		synctest.Wait()
		for i := range 20 {
			require.NoError(t, e.Proclaim(t.Context(), strconv.Itoa(i+1)))
		}
		for i := range 21 {
			requireObserved(t, ch, strconv.Itoa(i))
		}
	})
}

// After a compaction the leader is read again, and not delivered twice.
func TestObserveSurvivesACompaction(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t, WithTTL(100000))
		e := NewElection(s, "office")
		compactInAnOutage := func(meanwhile func()) {
			synctest.Wait()
			f.stop()
			meanwhile()
			f.put(t, "other", "")
			require.NoError(t, f.Compact(f.Revision()))
			f.start()
		}
		put := func(value string) func() {
			return func() {
				f.put(t, keyOf(s, "office"), value)
			}
		}
		ch := e.Observe(t.Context())
		compactInAnOutage(put("one"))
		requireObserved(t, ch, "one")
		compactInAnOutage(put("two"))
		requireObserved(t, ch, "two")
		compactInAnOutage(func() {})
		requireNothing(t, ch)
		put("three")()
		requireObserved(t, ch, "three")
	})
}

// The server cancels each watch, for a reason that the client does not know or for none. The observer reads again after a
// pause.
func TestObserveSurvivesCancelledWatches(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t, WithTTL(100000)), "office")
		cancelWatches(f, "a reason of its own")
		ch := e.Observe(t.Context())
		for _, value := range []string{"one", "two"} {
			require.NoError(t, e.Campaign(t.Context(), value))
			requireObserved(t, ch, value)
			requireNothing(t, ch)
		}
		require.Less(t, f.Count("Range"), 200, "one a second")
	})
	withFake(t, 1, func(t *testing.T, f fake) {
		cancelWatches(f, "")
		requireNothing(t, NewElection(f.session(t), "office").Observe(t.Context()))
	})
}

func TestObserveReadsLessOftenWhileReadsFail(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		for _, err := range []error{rpctypes.ErrGRPCCorrupt, errReset} {
			ctx, cancel := context.WithCancel(t.Context())
			reads := f.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, err) })
			ch := e.Observe(ctx)
			time.Sleep(10 * time.Minute)
			requireNothing(t, ch)
			require.Less(t, reads.Ran(), 200)
			cancel()
			reads.Remove()
		}
	})
}

func TestObserveEndsWhenItIsRefused(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		f.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		requireChannelClosed(t, NewElection(f.session(t), "office").Observe(t.Context()))
	})
}

func TestObserveEndsWithItsClient(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		c := clienttest.Connect(t, f.Cluster)
		s := clienttest.Must(NewSession(c))
		ch := NewElection(s, "office").Observe(t.Context())
		synctest.Wait()
		require.NoError(t, c.Close())
		requireChannelClosed(t, ch)
		<-s.Done()
		requireChannelClosed(t, NewElection(s, "office").Observe(t.Context()))
	})
}

// With WithRequireLeader the channel is closed when the cluster has no leader.
func TestObserveWithRequireLeader(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		ch := NewElection(f.session(t), "office").Observe(clientv3.WithRequireLeader(t.Context()))
		synctest.Wait()
		f.SetLeader(nil)
		f.Member(0).BreakConnections()
		time.Sleep(time.Minute)
		requireChannelClosed(t, ch)
	})
}

// TestObserveOfARestoredCluster lets the leader wait for its reader while the cluster is restored, which another call notices.
func TestObserveOfARestoredCluster(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		f.put(t, "office/1", "one")
		ch := NewElection(f.session(t), "office").Observe(t.Context())
		synctest.Wait()
		f.Once("Range", func(c *fakeetcd.Call) {
			c.Answer(&pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID, Revision: 1}}, nil)
		})
		clienttest.Must(f.client.Get(t.Context(), "any", clientv3.WithPrefix()))
		before := f.Count("Range")
		requireObserved(t, ch, "one")
		requireNothing(t, ch)
		require.Greater(t, f.Count("Range"), before, "the leader is read again")
	})
}

func TestSemaphoreHasNPlaces(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		const places, sessions = 3, 8
		var all []*Semaphore
		var results []<-chan error
		for range sessions {
			m := NewSemaphore(f.session(t), "pool", places)
			require.False(t, owns(t, f.client, m))
			all = append(all, m)
			results = append(results, clienttest.Go(func() error { return m.Acquire(t.Context(), "who") }))
		}
		for i, m := range all {
			for j := i; j < min(i+places, sessions); j++ {
				if i == 0 || j == i+places-1 { // the one that waited
					require.NoError(t, requireNow(t, results[j]))
				}
				require.True(t, owns(t, f.client, all[j]))
			}
			for j := i + places; j < sessions; j++ {
				requireWaiting(t, results[j])
			}
			require.Equal(t, "who", string(f.Get(m.Key()).Value))
			require.Equal(t, f.Get(m.Key()).CreateRevision, m.Rev())
			require.NoError(t, m.Release(t.Context()))
			require.False(t, owns(t, f.client, m))
			require.NoError(t, m.Release(t.Context()), "it does nothing")
		}
		require.Empty(t, f.keys(t, "pool"))
	})
}

// The holders are not the last keys ahead of a waiter, and any of them may leave.
func TestSemaphoreWhenAnyHolderLeaves(t *testing.T) {
	for name, leaves := range map[string]int{"first": 0, "last": 1} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				var held []*Semaphore
				for range 2 {
					m := NewSemaphore(f.session(t), "pool", 2)
					require.NoError(t, m.Acquire(t.Context(), ""))
					held = append(held, m)
				}
				waits := func() (*Semaphore, <-chan error) {
					m := NewSemaphore(f.session(t), "pool", 2)
					return m, clienttest.Go(func() error { return m.Acquire(t.Context(), "") })
				}
				_, third := waits()
				_, fourth := waits()
				reads := f.Count("Txn")
				require.NoError(t, held[leaves].Release(t.Context()))
				require.NoError(t, requireNow(t, third))
				requireWaiting(t, fourth)
				require.Equal(t, reads+2, f.Count("Txn"), "the release, and a read of one waiter")
				require.NoError(t, held[1-leaves].Release(t.Context()))
				require.NoError(t, requireNow(t, fourth))
			})
		})
	}
}

func TestSemaphoreOfOneIsALock(t *testing.T) {
	for _, places := range []int{-1, 0, 1} {
		withFake(t, 1, func(t *testing.T, f fake) {
			m := lock(t, f.session(t), "pool")
			s := NewSemaphore(f.session(t), "pool", places)
			result := clienttest.Go(func() error { return s.Acquire(t.Context(), "") })
			requireWaiting(t, result)
			require.NoError(t, m.Unlock(t.Context()))
			require.NoError(t, requireNow(t, result))
		})
	}
}
