package clientv3_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// membership is a Cluster with a fixed list of members.
type membership struct {
	Cluster
	clusterID uint64
	members   []*pb.Member
	onList    func() // nil for none
}

func (m *membership) MemberList(context.Context, ...OpOption) (*MemberListResponse, error) {
	if m.onList != nil {
		m.onList()
	}
	return &MemberListResponse{Header: &pb.ResponseHeader{ClusterId: m.clusterID}, Members: m.members}, nil
}

func voter(urls ...string) *pb.Member { return &pb.Member{ID: memberID, Name: "m", ClientURLs: urls} }

// Endpoints that refuse connections. A port that was free a moment ago may be another server's now; these are given to
// no socket that asks for any port.
const dead, otherDead = "http://127.0.0.1:1", "http://127.0.0.1:2"

func newSyncClient(t *testing.T, cluster Cluster, eps ...string) *Client {
	t.Helper()
	c := clienttest.Must(New(Config{Endpoints: eps, Logger: zap.NewNop()}))
	t.Cleanup(func() { _ = c.Close() })
	c.Cluster = cluster
	return c
}

// No time passes in a bubble while a server may answer.
func TestSync(t *testing.T) { synctest.Test(t, testSync) }

func testSync(t *testing.T) {
	const id = 7
	a, b, foreign := startMember(t, id), startMember(t, id), startMember(t, id+1)
	other := &pb.Member{ID: memberID + 1, Name: "m", ClientURLs: []string{b}}
	for name, tc := range map[string]struct {
		current []string
		members []*pb.Member
		want    []string
	}{
		"the advertised endpoints": {
			[]string{a}, []*pb.Member{voter(a), voter(b)}, []string{a, b},
		},
		"learners and members that never started are left out": {
			[]string{a}, []*pb.Member{{ClientURLs: []string{dead}}, {Name: "l", IsLearner: true, ClientURLs: []string{dead}}, voter(b)}, []string{b},
		},
		"an unreachable member keeps its place": {
			[]string{a, dead}, []*pb.Member{voter(a), voter(dead)}, []string{a, dead},
		},
		"an unreachable endpoint does not replace a reachable one": {
			[]string{a}, []*pb.Member{voter(dead)}, []string{a},
		},
		"a reachable endpoint is added": {
			[]string{a, otherDead}, []*pb.Member{voter(dead), voter(b)}, []string{b, a},
		},
		"an endpoint of several members replaces none of them": {
			[]string{a}, []*pb.Member{other, voter(b)}, []string{b, a},
		},
		"an endpoint of another cluster does not count": {
			[]string{a}, []*pb.Member{voter(foreign)}, []string{a},
		},
		"an endpoint at which another member answers does not count": {
			[]string{a}, []*pb.Member{other}, []string{a},
		},
		"without a reachable endpoint, the membership is used": {
			[]string{dead}, []*pb.Member{voter(otherDead)}, []string{otherDead},
		},
	} {
		c := newSyncClient(t, &membership{clusterID: id, members: tc.members}, tc.current...)
		require.NoError(t, c.Sync(t.Context()), name)
		assert.Equal(t, tc.want, c.Endpoints(), name)
	}
}

func TestSyncKeepsTheEndpoints(t *testing.T) {
	for reason, members := range map[string][]*pb.Member{
		"no started voting member":         {{Name: "l", IsLearner: true, ClientURLs: []string{"x:1"}}},
		"1001 client URLs, more than 1000": {voter(slices.Repeat([]string{dead}, 1001)...)},
	} {
		c := newSyncClient(t, &membership{members: members}, "127.0.0.1:1")
		assert.ErrorContains(t, c.Sync(t.Context()), reason)
		assert.Equal(t, []string{"127.0.0.1:1"}, c.Endpoints())
	}
}

func TestSyncWithoutAConnection(t *testing.T) {
	c := NewCtxClient(t.Context())
	c.Cluster = &membership{members: []*pb.Member{voter(dead)}}
	require.NoError(t, c.Sync(t.Context()))
	assert.Empty(t, c.Endpoints())
}

// The first update does not wait for an interval to pass. An interval without its unit does not flood the cluster.
func TestAutoSyncRunsAtTheStart(t *testing.T) {
	for interval, want := range map[time.Duration]float64{math.MaxInt64: 1, time.Hour: 1, 30: 60} {
		synctest.Test(t, func(t *testing.T) {
			cluster := clienttest.Start(t, 1)
			clienttest.Connect(t, cluster, Config{AutoSyncInterval: interval})
			time.Sleep(time.Minute)
			assert.InDelta(t, want, cluster.Count("MemberList"), want/10)
		})
	}
}

// An interceptor may close the client, also during auto-sync.
func TestCloseDuringAutoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client atomic.Pointer[Client]
		closed := make(chan error)
		closes := grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method == "/etcdserverpb.Cluster/MemberList" {
				closed <- client.Load().Close()
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})
		client.Store(clienttest.Connect(t, clienttest.Start(t, 1), Config{AutoSyncInterval: time.Hour, DialOptions: []grpc.DialOption{closes}}))
		require.NoError(t, <-closed)
	})
}

// Endpoints that the program sets while Sync runs stay.
func TestSyncLeavesEndpointsThatAreSetMeanwhile(t *testing.T) { synctest.Test(t, testSetMeanwhile) }

func testSetMeanwhile(t *testing.T) {
	const id = 7
	a, b := startMember(t, id), startMember(t, id)
	m := &membership{clusterID: id, members: []*pb.Member{voter(a)}}
	c := newSyncClient(t, m, a)
	m.onList = func() { c.SetEndpoints(b) }
	require.NoError(t, c.Sync(t.Context()))
	assert.Equal(t, []string{b}, c.Endpoints())
	m.onList = nil
	require.NoError(t, c.Sync(t.Context()))
	assert.Equal(t, []string{a}, c.Endpoints())
}

// advertise makes the cluster advertise url.
func advertise(cluster *fakeetcd.Cluster, url string) {
	cluster.On("MemberList", func(call *fakeetcd.Call) {
		call.Answer(&pb.MemberListResponse{
			Header:  &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID},
			Members: []*pb.Member{{ID: 1, Name: "m", ClientURLs: []string{url}}},
		}, nil)
	})
}

// Canceled probes are no evidence, whichever of them were answered.
func TestSyncTimesOut(t *testing.T) {
	clienttest.InBubble(t, 2, func(t *testing.T, cluster *fakeetcd.Cluster, c *Client) {
		good, hole := cluster.Endpoints()[0], cluster.Endpoints()[1]
		c.SetEndpoints(good)
		cluster.OnDial(func(ctx context.Context, m *fakeetcd.Member) error {
			if m == cluster.Member(0) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		advertise(cluster, hole)

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, c.Sync(ctx))
		assert.Equal(t, []string{good}, c.Endpoints())

		require.NoError(t, c.Sync(t.Context()))
		assert.Equal(t, []string{good}, c.Endpoints())
	})
}

func TestPasswordsOfURLsAreNotLogged(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	core, logs := observer.New(zap.DebugLevel)
	withPassword := strings.Replace(cluster.Endpoints()[0], "http://", "http://me:hunter2@", 1)
	c := clienttest.Must(New(Config{Endpoints: []string{withPassword}, DialOptions: cluster.DialOptions(), Logger: zap.New(core)}))
	defer c.Close()
	advertise(cluster, "http://me:hunter2@nowhere:2379")
	require.NoError(t, c.Sync(t.Context()))
	c.SetEndpoints("ftp://me:hunter2@nowhere:2379", withPassword)
	_, err := c.Status(t.Context(), "ftp://me:hunter2@nowhere:2379")
	require.Error(t, err)

	text := fmt.Sprint(err)
	require.NotEmpty(t, logs.All())
	for _, e := range logs.All() {
		text += fmt.Sprint(e.Message, e.ContextMap())
	}
	assert.NotContains(t, text, "hunter2")
}
