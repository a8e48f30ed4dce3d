package etcdprobe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
)

// patience is the deadline of probes that something keeps waiting. It passes in virtual time.
const patience = 250 * time.Millisecond

func start(t *testing.T) (*fakeetcd.Cluster, *grpc.ClientConn) {
	t.Helper()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	conn, err := cluster.Member(0).Dial()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return cluster, conn
}

// probe returns what a probe told, and the kinds of that.
func probe(ctx context.Context, p etcdprobe.Prober, conn grpc.ClientConnInterface) (reports []health.Report, seen []health.Kind) {
	p.Probe(ctx, conn, func(r health.Report) {
		reports = append(reports, r)
		seen = append(seen, r.Kind)
	})
	return reports, seen
}

// roles returns the roles among the reports.
func roles(reports []health.Report) []*health.Role {
	var all []*health.Role
	for _, r := range reports {
		if r.Role != nil {
			all = append(all, r.Role)
		}
	}
	return all
}

func errs(reports []health.Report) []error {
	var all []error
	for _, r := range reports {
		if r.Err != nil {
			all = append(all, r.Err)
		}
	}
	return all
}

// hold never answers. What a server says when the client's deadline passes, which its clock
// may see first, is what etcd says.
func hold(c *fakeetcd.Call) {
	if err := c.Hold(nil); err != nil {
		c.Answer(nil, status.FromContextError(c.Context().Err()).Err())
	}
}

func answer(resp proto.Message, err error) func(*fakeetcd.Call) {
	return func(c *fakeetcd.Call) { c.Answer(resp, err) }
}

func TestProbeOfAHealthyMember(t *testing.T) {
	cluster, conn := start(t)
	reports, seen := probe(t.Context(), etcdprobe.Prober{}, conn)
	assert.Contains(t, seen, health.Served)
	assert.NotContains(t, seen, health.Leaderless)
	assert.Empty(t, errs(reports))
	id := cluster.Member(0).ID()
	require.Len(t, roles(reports), 1)
	role := roles(reports)[0]
	assert.Equal(t, id, role.ID)
	assert.True(t, role.IsLeader())
	assert.NotZero(t, role.Term)
	assert.NotZero(t, role.Applied)
	assert.Equal(t, "3.7.3", role.Version)
	assert.Empty(t, role.Alarms)

	assert.Len(t, cluster.Calls(), 3)
	read := cluster.Calls("Range")[0].Request().(*pb.RangeRequest)
	assert.True(t, read.CountOnly)
	assert.False(t, read.Serializable)
}

func TestProbeOfStatusOnly(t *testing.T) {
	cluster, conn := start(t)
	reports, seen := probe(t.Context(), etcdprobe.Prober{StatusOnly: true}, conn)
	assert.Equal(t, []health.Kind{health.Answered}, seen)
	require.Len(t, roles(reports), 1)
	assert.Len(t, cluster.Calls(), 1)
}

// What a member in each kind of trouble shows.
func TestProbeOfMembersInTrouble(t *testing.T) {
	statusOf := func(s *pb.StatusResponse) func(*fakeetcd.Call) {
		s.Header = &pb.ResponseHeader{MemberId: 1}
		return answer(s, nil)
	}
	health503 := answer(nil, status.Error(codes.Unavailable, "no healthy upstream"))
	tests := []struct {
		name                string
		check, status, read func(*fakeetcd.Call) // nil is as it should be
		has, hasNot         []health.Kind
		err                 error
	}{
		{
			name: "the read hangs: a partition, or entries to apply", read: hold,
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served},
		},
		{
			name: "read and status hang: a defragmentation", read: hold, status: hold,
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served},
		},
		{
			name: "the status alone hangs", status: hold,
			has: []health.Kind{health.Served},
		},
		{
			name: "the health service hangs", check: hold,
			has: []health.Kind{health.Answered, health.Served},
		},
		{
			name: "all hang: a frozen process", read: hold, status: hold, check: hold,
		},
		{
			name: "no leader", read: hold, status: statusOf(&pb.StatusResponse{Errors: []string{"etcdserver: no leader"}}),
			has: []health.Kind{health.Leaderless}, hasNot: []health.Kind{health.Served},
		},
		{
			name: "no leader, says the read", read: answer(nil, rpctypes.ErrGRPCNoLeader), status: hold,
			has: []health.Kind{health.Leaderless}, hasNot: []health.Kind{health.Served}, err: rpctypes.ErrGRPCNoLeader,
		},
		{
			name: "a learner", status: statusOf(&pb.StatusResponse{Leader: 2, IsLearner: true}),
			read:  answer(nil, rpctypes.ErrGRPCNotSupportedForLearner),
			check: answer(nil, rpctypes.ErrGRPCNotSupportedForLearner),
			has:   []health.Kind{health.NonVoting}, hasNot: []health.Kind{health.Served, health.Leaderless},
			err: rpctypes.ErrGRPCNotSupportedForLearner,
		},
		{
			name: "a learner without a leader", status: statusOf(&pb.StatusResponse{IsLearner: true}),
			read: answer(nil, rpctypes.ErrGRPCNotSupportedForLearner),
			has:  []health.Kind{health.NonVoting}, hasNot: []health.Kind{health.Served, health.Leaderless},
			err: rpctypes.ErrGRPCNotSupportedForLearner,
		},
		{
			name: "a read that times out at the server", read: answer(nil, rpctypes.ErrGRPCTimeout),
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served}, err: rpctypes.ErrGRPCTimeout,
		},
		{
			name: "a leader that changes", read: answer(nil, rpctypes.ErrGRPCLeaderChanged),
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served}, err: rpctypes.ErrGRPCLeaderChanged,
		},
		{
			name: "a cluster whose version is not known yet", read: answer(nil, rpctypes.ErrGRPCNotCapable),
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served}, err: rpctypes.ErrGRPCNotCapable,
		},
		{
			name: "corrupt", read: answer(nil, rpctypes.ErrGRPCCorrupt),
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served}, err: rpctypes.ErrGRPCCorrupt,
		},
		{
			name: "stopping", read: answer(nil, rpctypes.ErrGRPCStopped),
			has: []health.Kind{health.Refusing}, hasNot: []health.Kind{health.Served}, err: rpctypes.ErrGRPCStopped,
		},
		{
			name:  "not to be used, and working",
			check: answer(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil),
			has:   []health.Kind{health.Refusing}, hasNot: []health.Kind{health.Served},
		},
		{
			name: "without a health service", check: answer(nil, status.Error(codes.Unimplemented, "unknown service")),
			has: []health.Kind{health.Served},
		},
		{
			name: "behind a proxy that does not forward health checks", check: health503,
			has: []health.Kind{health.Served},
		},
		{
			name: "without a status", status: answer(nil, status.Error(codes.Unimplemented, "unknown service")),
			has: []health.Kind{health.Served, health.Answered}, err: status.Error(codes.Unimplemented, "unknown service"),
		},
		{
			name: "the connection broke", check: health503, status: health503, read: health503,
		},
		{
			name: "the client may not read", read: answer(nil, rpctypes.ErrGRPCPermissionDenied),
			has: []health.Kind{health.Served},
		},
		{
			name: "the client has a stale token", read: answer(nil, rpctypes.ErrGRPCInvalidAuthToken),
			status: answer(nil, rpctypes.ErrGRPCInvalidAuthToken),
			has:    []health.Kind{health.Served, health.Answered}, err: rpctypes.ErrGRPCInvalidAuthToken,
		},
		{
			name: "users changed after the token was made", read: answer(nil, rpctypes.ErrGRPCAuthOldRevision),
			has: []health.Kind{health.Served},
		},
		{
			name: "the client has no token", read: answer(nil, rpctypes.ErrGRPCUserEmpty),
			has: []health.Kind{health.Served},
		},
		{
			name: "a proxy refuses the read", read: answer(nil, status.Error(codes.PermissionDenied, "RBAC: access denied")),
			has: []health.Kind{health.Answered}, hasNot: []health.Kind{health.Served},
			err: status.Error(codes.PermissionDenied, "RBAC: access denied"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, conn := start(t)
				for method, hook := range map[string]func(*fakeetcd.Call){"Check": tt.check, "Status": tt.status, "Range": tt.read} {
					if hook != nil {
						cluster.On(method, hook)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				reports, seen := probe(ctx, etcdprobe.Prober{}, conn)
				for _, k := range tt.has {
					assert.Contains(t, seen, k)
				}
				for _, k := range tt.hasNot {
					assert.NotContains(t, seen, k)
				}
				if len(tt.has) == 0 {
					assert.Empty(t, seen)
				}
				for _, err := range errs(reports) {
					assert.Equal(t, status.Convert(tt.err).Message(), status.Convert(err).Message())
				}
				if tt.err != nil {
					assert.NotEmpty(t, errs(reports))
				}
				for _, r := range reports {
					if r.Kind == health.Served {
						assert.NoError(t, r.Err)
					}
				}
			})
		})
	}
}

// That a member has no leader is told while the read hangs still.
func TestProbeTellsAtOnce(t *testing.T) {
	cluster, conn := start(t)
	cluster.On("Status", answer(&pb.StatusResponse{Header: &pb.ResponseHeader{}}, nil))
	release := make(chan struct{})
	cluster.On("Range", func(c *fakeetcd.Call) { _ = c.Hold(release) })
	told := make(chan health.Kind, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		etcdprobe.Prober{}.Probe(t.Context(), conn, func(r health.Report) { told <- r.Kind })
	}()
	for k := range told {
		if k == health.Leaderless {
			break
		}
	}
	select {
	case <-done:
		t.Error("the read has not ended")
	default:
	}
	close(release)
	<-done
}

// A probe leaves no call behind.
func TestProbeEndsItsCalls(t *testing.T) {
	cluster, conn := start(t)
	ended := make(chan struct{}, 3)
	cluster.On("*", func(c *fakeetcd.Call) {
		hold(c)
		ended <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []health.Kind)
	go func() {
		_, seen := probe(ctx, etcdprobe.Prober{}, conn)
		done <- seen
	}()
	for _, method := range []string{"Check", "Status", "Range"} {
		require.NoError(t, cluster.Wait(t.Context(), method, 1))
	}
	cancel()
	assert.Empty(t, <-done)
	for range 3 {
		<-ended
	}
}

func TestProbeOfAStoppedMember(t *testing.T) {
	cluster, conn := start(t)
	cluster.Member(0).Stop()
	_, seen := probe(t.Context(), etcdprobe.Prober{}, conn)
	assert.Empty(t, seen)
	_, seen = probe(t.Context(), etcdprobe.Prober{StatusOnly: true}, conn)
	assert.Empty(t, seen)
}

// Alarms come as text, once for each member that raised one.
func TestProbeTellsAlarms(t *testing.T) {
	cluster, conn := start(t)
	raise := func(id uint64, a pb.AlarmType) {
		t.Helper()
		_, err := pb.NewMaintenanceClient(conn).Alarm(t.Context(),
			&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: a})
		require.NoError(t, err)
	}
	raise(1, pb.AlarmType_NOSPACE)
	raise(2, pb.AlarmType_NOSPACE)
	raise(1, pb.AlarmType_CORRUPT)
	cluster.On("Status", func(c *fakeetcd.Call) {
		resp, err := c.Execute()
		s := resp.(*pb.StatusResponse)
		s.Errors = append(s.Errors, "etcdserver: no leader")
		c.Answer(s, err)
	})
	reports, _ := probe(t.Context(), etcdprobe.Prober{StatusOnly: true}, conn)
	require.Len(t, roles(reports), 1)
	assert.Equal(t, []string{"CORRUPT", "NOSPACE"}, roles(reports)[0].Alarms)
}
