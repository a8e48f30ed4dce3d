package etcdprobe_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/internal/grpctest"
)

// probeTimeout is the deadline of probes that something keeps waiting. It passes in virtual time.
const probeTimeout = 250 * time.Millisecond

func start(t *testing.T) (*fakeetcd.Cluster, *grpc.ClientConn) {
	t.Helper()
	cluster, err := fakeetcd.Start(2)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	conn, err := cluster.Member(0).Dial()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return cluster, conn
}

// probe returns what a probe reports.
func probe(ctx context.Context, p health.Prober, conn grpc.ClientConnInterface) []health.Report {
	var reports []health.Report
	p.Probe(ctx, conn, func(r health.Report) { reports = append(reports, r) })
	return reports
}

// hold never answers. When the client's deadline passes, which the server may notice first, it
// returns the error that etcd returns.
func hold(c *fakeetcd.Call) {
	if err := c.Hold(nil); err != nil {
		c.Answer(nil, status.FromContextError(c.Context().Err()).Err())
	}
}

func answer(resp proto.Message, err error) func(*fakeetcd.Call) {
	return func(c *fakeetcd.Call) { c.Answer(resp, err) }
}

// probeCase is what a member answers to a probe, and what that shows.
type probeCase struct {
	name   string
	answer func(*fakeetcd.Call)
	kind   health.Kind
	detail string
	err    error // nil for none
	silent bool  // nothing is reported
}

// probeEach probes a member in each case, and requires exactly what it shows.
func probeEach(t *testing.T, p health.Prober, method string, tests []probeCase) {
	for _, tt := range tests {
		grpctest.Bubble(t, tt.name, func(t *testing.T) {
			cluster, conn := start(t)
			cluster.On(method, tt.answer)
			reports := probe(grpctest.Within(t, probeTimeout), p, conn)
			assert.Len(t, cluster.Calls(), 1, "a probe is one call")
			assert.Len(t, cluster.Calls(method), 1)
			if tt.silent {
				assert.Empty(t, reports)
				return
			}
			require.Len(t, reports, 1)
			assert.Equal(t, tt.kind.String(), reports[0].Kind.String())
			assert.Equal(t, tt.detail, reports[0].Detail)
			assert.Equal(t, status.Convert(tt.err).Message(), status.Convert(reports[0].Err).Message())
		})
	}
}

// errBroken is what a client makes of a broken connection.
var errBroken = status.Error(codes.Unavailable, "error reading from server: EOF")

func TestServiceReportsWhetherTheMemberWorks(t *testing.T) {
	denied := status.Error(codes.PermissionDenied, "RBAC: access denied")
	probeEach(t, etcdprobe.Service{}, "Range", []probeCase{
		{name: "works", answer: answer(&pb.RangeResponse{}, nil), kind: health.Served},
		{name: "has no leader", answer: answer(nil, rpctypes.ErrGRPCNoLeader), kind: health.Degrading, detail: "no leader", err: rpctypes.ErrGRPCNoLeader},
		{
			name: "is a learner", answer: answer(nil, rpctypes.ErrGRPCNotSupportedForLearner),
			kind: health.Restricting, detail: "learner", err: rpctypes.ErrGRPCNotSupportedForLearner,
		},
		{name: "stops", answer: answer(nil, rpctypes.ErrGRPCStopped), kind: health.Refusing, err: rpctypes.ErrGRPCStopped},

		{name: "times out", answer: answer(nil, rpctypes.ErrGRPCTimeout), kind: health.Answered, err: rpctypes.ErrGRPCTimeout},
		{name: "changes its leader", answer: answer(nil, rpctypes.ErrGRPCLeaderChanged), kind: health.Answered, err: rpctypes.ErrGRPCLeaderChanged},
		{name: "does not know the cluster's version", answer: answer(nil, rpctypes.ErrGRPCNotCapable), kind: health.Answered, err: rpctypes.ErrGRPCNotCapable},
		{name: "is corrupt", answer: answer(nil, rpctypes.ErrGRPCCorrupt), kind: health.Answered, err: rpctypes.ErrGRPCCorrupt},
		{name: "is behind a proxy that refuses", answer: answer(nil, denied), kind: health.Answered, err: denied},

		{name: "lets nobody read the key", answer: answer(nil, rpctypes.ErrGRPCPermissionDenied), kind: health.Served},
		{name: "does not know the token", answer: answer(nil, rpctypes.ErrGRPCInvalidAuthToken), kind: health.Served},
		{name: "changed its users since the token was made", answer: answer(nil, rpctypes.ErrGRPCAuthOldRevision), kind: health.Served},
		{name: "wants a token", answer: answer(nil, rpctypes.ErrGRPCUserEmpty), kind: health.Served},

		{name: "hangs", answer: hold, silent: true},
		{name: "is not reached", answer: answer(nil, errBroken), silent: true},
	})
}

// A member answers a read without "hasleader" only when there is a leader again.
func TestServiceRequiresALeaderAndCountsLinearizably(t *testing.T) {
	cluster, conn := start(t)
	cluster.SetLeader(cluster.Member(1))
	assert.Equal(t, []health.Report{{Kind: health.Served, Term: 3}}, probe(t.Context(), etcdprobe.Service{}, conn))
	require.Len(t, cluster.Calls(), 1)
	call := cluster.Calls("Range")[0]
	assert.Equal(t, []string{rpctypes.MetadataHasLeader}, call.Metadata.Get(rpctypes.MetadataRequireLeaderKey))
	read := call.Request().(*pb.RangeRequest)
	assert.True(t, read.CountOnly)
	assert.False(t, read.Serializable)
	assert.Empty(t, read.RangeEnd, "one key")

	cluster.SetLeader(nil)
	reports := probe(t.Context(), etcdprobe.Service{}, conn)
	require.Len(t, reports, 1)
	assert.Equal(t, health.Degrading, reports[0].Kind)
}

func TestLivenessReportsAnySignOfLife(t *testing.T) {
	probeEach(t, etcdprobe.Liveness{}, "Check", []probeCase{
		{name: "serving", answer: answer(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil), kind: health.Answered},
		{name: "defragmenting", answer: answer(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil), kind: health.Refusing},
		{name: "unknown", answer: answer(&healthpb.HealthCheckResponse{}, nil), kind: health.Answered},
		{name: "without a health service", answer: answer(nil, status.Error(codes.Unimplemented, "unknown service")), kind: health.Answered},
		{name: "a learner", answer: answer(nil, rpctypes.ErrGRPCNotSupportedForLearner), kind: health.Answered},
		{name: "behind a proxy that refuses", answer: answer(nil, status.Error(codes.PermissionDenied, "RBAC: access denied")), kind: health.Answered},
		{name: "hangs", answer: hold, silent: true},
		{name: "is not reached", answer: answer(nil, errBroken), silent: true},
	})
}

func TestStatusReportsTheRole(t *testing.T) {
	cluster, conn := start(t)
	role := func(kind health.Kind, detail string) etcdprobe.Role {
		t.Helper()
		reports := probe(t.Context(), etcdprobe.Status{}, conn)
		require.Len(t, reports, 1)
		assert.Equal(t, kind.String(), reports[0].Kind.String())
		assert.Equal(t, detail, reports[0].Detail)
		assert.NoError(t, reports[0].Err)
		role, ok := reports[0].Info.(etcdprobe.Role)
		require.True(t, ok)
		assert.Equal(t, cluster.Member(0).ID(), role.ID)
		return role
	}
	leader := role(health.Answered, "")
	assert.True(t, leader.IsLeader())
	assert.NotZero(t, leader.Term)
	assert.NotZero(t, leader.Applied)
	assert.Equal(t, "3.7.3", leader.Version)
	assert.Empty(t, leader.Alarms)

	cluster.SetLeader(cluster.Member(1))
	follower := role(health.Answered, "")
	assert.Equal(t, cluster.Member(1).ID(), follower.Leader)
	assert.False(t, follower.IsLeader())
	assert.Greater(t, follower.Term, leader.Term)

	learner := cluster.On("Status", func(c *fakeetcd.Call) {
		resp, err := c.Execute()
		resp.(*pb.StatusResponse).IsLearner = true
		c.Answer(resp, err)
	})
	assert.True(t, role(health.Restricting, "learner").Learner)
	cluster.SetLeader(nil)
	assert.Zero(t, role(health.Restricting, "learner").Leader, "a learner without a leader is Restricted")
	learner.Remove()
	assert.Zero(t, role(health.Degrading, "no leader").Leader)
	assert.Len(t, cluster.Calls(), 5, "a probe is one call")
	assert.Len(t, cluster.Calls("Status"), 5)
}

func TestStatusWithoutAnAnswer(t *testing.T) {
	unimplemented := status.Error(codes.Unimplemented, "unknown service")
	probeEach(t, etcdprobe.Status{}, "Status", []probeCase{
		{name: "wants a token", answer: answer(nil, rpctypes.ErrGRPCUserEmpty), kind: health.Answered, err: rpctypes.ErrGRPCUserEmpty},
		{name: "does not know the token", answer: answer(nil, rpctypes.ErrGRPCInvalidAuthToken), kind: health.Answered, err: rpctypes.ErrGRPCInvalidAuthToken},
		{name: "has no status", answer: answer(nil, unimplemented), kind: health.Answered, err: unimplemented},
		{name: "stops", answer: answer(nil, rpctypes.ErrGRPCStopped), kind: health.Refusing, err: rpctypes.ErrGRPCStopped},
		{name: "defragments", answer: hold, silent: true},
		{name: "is not reached", answer: answer(nil, errBroken), silent: true},
	})
}

// Every member lists the alarms of all, in text form, among other errors.
func TestStatusNamesEachAlarmOnce(t *testing.T) {
	cluster, conn := start(t)
	cluster.On("Status", func(c *fakeetcd.Call) {
		resp, err := c.Execute()
		errs := &resp.(*pb.StatusResponse).Errors
		for _, a := range []*pb.AlarmMember{
			{MemberID: 1, Alarm: pb.AlarmType_NOSPACE}, {MemberID: 2, Alarm: pb.AlarmType_NOSPACE}, {MemberID: 1, Alarm: pb.AlarmType_CORRUPT},
		} {
			*errs = append(*errs, a.String())
		}
		c.Answer(resp, err)
	})
	cluster.SetLeader(nil)
	reports := probe(t.Context(), etcdprobe.Status{}, conn)
	require.Len(t, reports, 1)
	assert.Equal(t, []string{"CORRUPT", "NOSPACE"}, reports[0].Info.(etcdprobe.Role).Alarms)
}

func TestRoleOf(t *testing.T) {
	role := etcdprobe.Role{ID: 1, Leader: 1}
	assert.Equal(t, role, etcdprobe.RoleOf(&health.Status{Info: role}))
	assert.Zero(t, etcdprobe.RoleOf(&health.Status{}))
	assert.Zero(t, etcdprobe.RoleOf(&health.Status{Info: "of another prober"}))
	assert.False(t, etcdprobe.Role{}.IsLeader())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
