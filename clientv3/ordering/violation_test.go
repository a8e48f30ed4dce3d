package ordering_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/ordering"
)

// revisions makes members report revisions of their own.
type revisions struct {
	cluster *fakeetcd.Cluster
	mu      sync.Mutex
	of      map[*fakeetcd.Member]int64
}

func setRevisions(t *testing.T, cluster *fakeetcd.Cluster, of ...int64) *revisions {
	r := &revisions{cluster: cluster}
	r.set(of...)
	for _, method := range []string{"Range", "Status"} {
		cluster.On(method, func(call *fakeetcd.Call) {
			resp, err := call.Execute()
			if !assert.NoError(t, err) {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			resp.(interface{ GetHeader() *pb.ResponseHeader }).GetHeader().Revision = r.of[call.Member]
		})
	}
	return r
}

func (r *revisions) set(of ...int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = map[*fakeetcd.Member]int64{}
	for i, rev := range of {
		r.of[r.cluster.Member(i)] = rev
	}
}

func read(t *testing.T, kv clientv3.KV) (int64, error) {
	resp, err := kv.Get(clienttest.Within(t), "k", clientv3.WithSerializable())
	return (*pb.RangeResponse)(resp).GetHeader().GetRevision(), err
}

// TestSwitchRecovers has all members behind, and catching up one after the other.
func TestSwitchRecovers(t *testing.T) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client) {
		members := setRevisions(t, cluster, 7, 7, 7)
		kv := ordering.NewKV(c, ordering.NewOrderViolationSwitchEndpointClosure(c))
		_, err := read(t, kv)
		require.NoError(t, err)

		members.set(6, 5, 4)
		for range 5 {
			_, err = read(t, kv)
			require.Equal(t, ordering.ErrNoGreaterRev, err)
		}
		members.set(6, 8, 4)
		for range 5 {
			rev, err := read(t, kv)
			require.NoError(t, err)
			require.EqualValues(t, 8, rev)
		}
		require.Equal(t, cluster.Endpoints(), c.Endpoints())
	})
}

// TestSwitchOfOneEndpoint has a client whose only endpoint is a member that is behind.
func TestSwitchOfOneEndpoint(t *testing.T) {
	clienttest.InBubble(t, 2, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client) {
		setRevisions(t, cluster, 7, 3)
		f := ordering.NewOrderViolationSwitchEndpointClosure(c)
		ask := func(prevRev int64) error { return f(clientv3.OpGet("k"), clientv3.OpResponse{}, prevRev) }
		c.SetEndpoints(cluster.Member(1).Endpoint())
		require.Equal(t, ordering.ErrNoGreaterRev, ask(4))
		require.NoError(t, ask(3))
		c.SetEndpoints(cluster.Endpoints()...)
		require.NoError(t, ask(7))
		require.Equal(t, ordering.ErrNoGreaterRev, ask(8))
	})
}

// A member that permits Status to root alone may have the revision.
func TestSwitchWithoutPermissionForStatus(t *testing.T) {
	clienttest.InBubble(t, 2, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client) {
		cluster.On("Status", func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.NoError(t, ordering.NewOrderViolationSwitchEndpointClosure(c)(clientv3.OpGet("k"), clientv3.OpResponse{}, 7))
	})
}

func TestSwitchWithoutConnection(t *testing.T) {
	c := clientv3.NewCtxClient(t.Context())
	f := ordering.NewOrderViolationSwitchEndpointClosure(c)
	require.Equal(t, ordering.ErrNoGreaterRev, f(clientv3.OpGet("k"), clientv3.OpResponse{}, 1))

	_, closed := clienttest.StartClient(t, 3)
	f = ordering.NewOrderViolationSwitchEndpointClosure(closed)
	require.NoError(t, closed.Close())
	require.Equal(t, ordering.ErrNoGreaterRev, f(clientv3.OpGet("k"), clientv3.OpResponse{}, 1))
}

// inBubble runs a test on fake time, with a cluster whose members answer Status when
// and what answer says.
func inBubble(t *testing.T, answer func(call *fakeetcd.Call) (after time.Duration, revision int64),
	test func(cluster *fakeetcd.Cluster, ask func(prevRev int64) error),
) {
	clienttest.InBubble(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client) {
		cluster.On("Status", func(call *fakeetcd.Call) {
			after, revision := answer(call)
			select {
			case <-time.After(after):
			case <-call.Context().Done():
				call.Answer(nil, call.Context().Err())
				return
			}
			call.Answer(proto.Message(&pb.StatusResponse{Header: &pb.ResponseHeader{Revision: revision}}), nil)
		})
		f := ordering.NewOrderViolationSwitchEndpointClosure(c)
		test(cluster, func(prevRev int64) error { return f(clientv3.OpGet("k"), clientv3.OpResponse{}, prevRev) })
	})
}

func TestSwitchDoesNotWaitForHungMembers(t *testing.T) {
	answer := func(call *fakeetcd.Call) (time.Duration, int64) {
		if call.Member.Name() == "member-1" {
			return time.Hour, 9
		}
		return 0, 5
	}
	inBubble(t, answer, func(_ *fakeetcd.Cluster, ask func(int64) error) {
		began := time.Now()
		require.NoError(t, ask(5))
		require.Less(t, time.Since(began), 100*time.Millisecond)
		began = time.Now()
		require.Equal(t, ordering.ErrNoGreaterRev, ask(6))
		require.InDelta(t, time.Second, time.Since(began), float64(100*time.Millisecond))
	})
}

func TestSwitchReusesStatusForASecond(t *testing.T) {
	answer := func(*fakeetcd.Call) (time.Duration, int64) { return 0, 5 }
	inBubble(t, answer, func(cluster *fakeetcd.Cluster, ask func(int64) error) {
		for range 100 {
			require.NoError(t, ask(5))
			require.NoError(t, ask(4))
		}
		require.LessOrEqual(t, cluster.Count("Status"), 3)
		asked := cluster.Count("Status")
		time.Sleep(time.Second)
		require.NoError(t, ask(5))
		require.Greater(t, cluster.Count("Status"), asked, "members may be gone since")
		require.Equal(t, ordering.ErrNoGreaterRev, ask(6))
		synctest.Wait() // a request arrives although an earlier call has had its answer from another member
		asked = cluster.Count("Status")
		require.Equal(t, ordering.ErrNoGreaterRev, ask(6))
		require.Equal(t, asked+3, cluster.Count("Status"), "an outage is not remembered")
	})
}

func TestSwitchSharesStatusRequests(t *testing.T) {
	answer := func(*fakeetcd.Call) (time.Duration, int64) { return 100 * time.Millisecond, 5 }
	inBubble(t, answer, func(cluster *fakeetcd.Cluster, ask func(int64) error) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { assert.Equal(t, ordering.ErrNoGreaterRev, ask(6)) })
		}
		all.Wait()
		require.Equal(t, 3, cluster.Count("Status"))
	})
}

// TestSwitchSharesOnlyCompleteResults has a check of a low revision end with the first answer,
// while one of a higher revision waits for it.
func TestSwitchSharesOnlyCompleteResults(t *testing.T) {
	answer := func(call *fakeetcd.Call) (time.Duration, int64) {
		if call.Member.Name() == "member-0" {
			return 100 * time.Millisecond, 5
		}
		return 500 * time.Millisecond, 9
	}
	inBubble(t, answer, func(_ *fakeetcd.Cluster, ask func(int64) error) {
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, ask(5)) })
		synctest.Wait()
		all.Go(func() { assert.NoError(t, ask(9)) })
		all.Wait()
	})
}
