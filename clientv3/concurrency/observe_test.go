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
)

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
		reads := f.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCCorrupt) })
		e.Observe(t.Context())
		time.Sleep(10 * time.Minute)
		require.Less(t, reads.Ran(), 200)
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
