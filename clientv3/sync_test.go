package clientv3

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// membership is a Cluster with a fixed list of members.
type membership struct {
	Cluster
	clusterID uint64
	members   []*pb.Member
	asked     chan struct{}
	onList    func() // nil for none
}

func (m *membership) MemberList(context.Context, ...OpOption) (*MemberListResponse, error) {
	if m.asked != nil {
		select {
		case m.asked <- struct{}{}:
		default:
		}
	}
	if m.onList != nil {
		m.onList()
	}
	return &MemberListResponse{Header: &pb.ResponseHeader{ClusterId: m.clusterID}, Members: m.members}, nil
}

func voter(urls ...string) *pb.Member { return &pb.Member{Name: "m", ClientURLs: urls} }

// statusServer answers Status for a cluster.
type statusServer struct {
	pb.UnimplementedMaintenanceServer
	clusterID uint64
}

func (s statusServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: s.clusterID}, Version: "3.7.3"}, nil
}

func startStatusServer(t *testing.T, clusterID uint64) (endpoint string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer()
	pb.RegisterMaintenanceServer(srv, statusServer{clusterID: clusterID})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return "http://" + lis.Addr().String()
}

// Endpoints that refuse connections. A port that was free a moment ago may be another server's now; these are given to
// no socket that asks for any port.
const closedPort, otherClosedPort = "http://127.0.0.1:1", "http://127.0.0.1:2"

func newSyncClient(t *testing.T, cluster Cluster, eps ...string) *Client {
	t.Helper()
	c, err := New(Config{Endpoints: eps, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	c.Cluster = cluster
	return c
}

// No time passes in a bubble while a server may answer.
func TestSync(t *testing.T) { synctest.Test(t, testSync) }

func testSync(t *testing.T) {
	const id, other = 7, 8
	a, b, foreign := startStatusServer(t, id), startStatusServer(t, id), startStatusServer(t, other)
	dead, dead2 := closedPort, otherClosedPort
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
			[]string{a, dead2}, []*pb.Member{voter(dead), voter(b)}, []string{b, a},
		},
		"an endpoint of another cluster does not count": {
			[]string{a}, []*pb.Member{voter(foreign)}, []string{a},
		},
		"without a reachable endpoint, the membership is used": {
			[]string{dead}, []*pb.Member{voter(dead2)}, []string{dead2},
		},
	} {
		c := newSyncClient(t, &membership{clusterID: id, members: tc.members}, tc.current...)
		require.NoError(t, c.Sync(t.Context()), name)
		assert.Equal(t, tc.want, c.Endpoints(), name)
	}
}

func TestSyncKeepsTheEndpointsWhenNoVoterIsLeft(t *testing.T) {
	c := newSyncClient(t, &membership{members: []*pb.Member{{Name: "l", IsLearner: true, ClientURLs: []string{"x:1"}}}}, "127.0.0.1:1")
	assert.ErrorIs(t, c.Sync(t.Context()), errNoVoters)
	assert.Equal(t, []string{"127.0.0.1:1"}, c.Endpoints())
}

// The first update does not wait for an interval to pass.
func TestAutoSyncRunsAtTheStart(t *testing.T) {
	m := &membership{members: []*pb.Member{voter("127.0.0.1:1")}, asked: make(chan struct{}, 1)}
	c := newClient(t.Context())
	c.lg.Store(zap.NewNop())
	c.cfg.AutoSyncInterval = time.Hour
	c.Cluster = m
	c.background.Go(c.autoSync)
	select {
	case <-m.asked:
	case <-time.After(20 * time.Second):
		t.Fatal("no update within 20 s; the interval is an hour")
	}
	assert.ErrorIs(t, c.Close(), context.Canceled)
}

// Endpoints that the program sets while Sync runs stay.
func TestSyncLeavesEndpointsThatAreSetMeanwhile(t *testing.T) { synctest.Test(t, testSetMeanwhile) }

func testSetMeanwhile(t *testing.T) {
	const id = 7
	a, b := startStatusServer(t, id), startStatusServer(t, id)
	m := &membership{clusterID: id, members: []*pb.Member{voter(a)}}
	c := newSyncClient(t, m, a)
	m.onList = func() { c.SetEndpoints(b) }
	require.NoError(t, c.Sync(t.Context()))
	assert.Equal(t, []string{b}, c.Endpoints())
	m.onList = nil
	require.NoError(t, c.Sync(t.Context()))
	assert.Equal(t, []string{a}, c.Endpoints())
}
