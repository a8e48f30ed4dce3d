package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/internal/port"
)

// scripted is a server with the answers of a test, for problems that the lab cannot produce.
type scripted struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	status  *pb.StatusResponse
	read    error
	delay   time.Duration
	members []*pb.Member
	hash    uint32
	hashErr error
}

func (s *scripted) HashKV(context.Context, *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	return &pb.HashKVResponse{Header: s.status.Header, Hash: s.hash}, s.hashErr
}

func (s *scripted) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCTimeout // as without a quorum
}

func (s *scripted) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return s.status, nil
}

func (s *scripted) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	_ = pause.For(ctx, s.delay)
	return &pb.RangeResponse{Header: s.status.Header}, s.read
}

func (s *scripted) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: s.status.Header, Members: s.members}, nil
}

// member returns a healthy member with an ID. All are of one cluster, whose leader has the ID 1.
func member(id uint64, change func(*scripted)) *scripted {
	s := &scripted{status: &pb.StatusResponse{
		Header: &pb.ResponseHeader{ClusterId: 7, MemberId: id}, Version: "3.6.4", Leader: 1, RaftTerm: 5, RaftIndex: 9000, RaftAppliedIndex: 9000,
		DbSize: 1 << 20, DbSizeInUse: 1 << 20, DbSizeQuota: 2 << 30,
	}}
	change(s)
	return s
}

func (s *scripted) start(t *testing.T) string {
	t.Helper()
	return grpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		pb.RegisterAuthServer(r, s)
		pb.RegisterKVServer(r, s)
		pb.RegisterMaintenanceServer(r, s)
		pb.RegisterClusterServer(r, s)
	}).String()
}

func TestWhatServersSay(t *testing.T) {
	same := func(*scripted) {}
	learner := func(s *scripted) { s.status.IsLearner, s.read = true, rpctypes.ErrGRPCNotSupportedForLearner }
	dead, err := port.Reserve()
	require.NoError(t, err)
	defer dead.Release()
	for _, tt := range []struct {
		name    string
		servers []*scripted
		want    []string
	}{
		{"healthy, without HTTP", []*scripted{member(1, same), member(2, same)}, nil},
		{"learner only", []*scripted{member(2, learner)}, []string{"error only-learners"}},
		{"a learner and a voter", []*scripted{member(1, same), member(2, learner)}, []string{"note learner"}},
		{"unreachable advertised URL", []*scripted{member(1, func(s *scripted) {
			s.members = []*pb.Member{{ID: 1, Name: "one", ClientURLs: []string{"http://" + dead.Address()}}}
		})}, []string{"warning advertised-unreachable one"}},
		{"a dead member that no endpoint names", []*scripted{member(1, func(s *scripted) {
			s.members = []*pb.Member{{ID: 1, Name: "one"}, {ID: 2, Name: "two", ClientURLs: []string{"http://" + dead.Address()}}, {ID: 3, Name: "three"}}
		})}, []string{"warning refused two", "warning redundancy"}},
		{"a member answers at the URL of another one", []*scripted{member(1, func(s *scripted) {
			other := member(3, same).start(t)
			s.members = []*pb.Member{{ID: 1, Name: "one"}, {ID: 2, Name: "two", ClientURLs: []string{"http://" + other}}}
		})}, []string{"note advertised-other two", "note not-an-endpoint two"}},
		{"a member that has not started", []*scripted{member(1, func(s *scripted) {
			s.members = []*pb.Member{{ID: 1, Name: "one"}, {ID: 0x2a, IsLearner: true}}
		})}, []string{"warning not-started 2a"}},
		{"different data", []*scripted{member(1, same), member(2, func(s *scripted) { s.hash = 7 })}, []string{"error hash-differs"}},
		{"data that is not compared", []*scripted{member(1, same), member(2, func(s *scripted) { s.hashErr = rpctypes.ErrGRPCPermissionDenied })}, []string{"warning hash-unknown"}},
		{
			"two clusters of different versions",
			[]*scripted{member(1, same), member(2, func(s *scripted) { s.status.Header.ClusterId, s.status.Version, s.status.RaftTerm = 8, "3.5.30", 4 })},
			[]string{"error other-cluster"},
		},
		{"kine", []*scripted{member(0, func(s *scripted) { s.status.Leader = 0 })}, []string{"note not-etcd"}},
		{
			"versions",
			[]*scripted{member(1, same), member(2, func(s *scripted) { s.status.Version = "3.5.1" })},
			[]string{"warning mixed-versions", "warning bad-version"},
		},
		{"an old term", []*scripted{member(1, same), member(2, func(s *scripted) { s.status.RaftTerm = 4 })}, []string{"warning old-term"}},
		{"a lag", []*scripted{member(1, same), member(2, func(s *scripted) { s.status.RaftAppliedIndex = 100 })}, []string{"warning lagging"}},
		{"corrupt", []*scripted{member(1, func(s *scripted) {
			s.status.Errors = []string{"memberID:2  alarm:CORRUPT "}
			s.members = []*pb.Member{{ID: 2, Name: "two"}}
		})}, []string{"error alarm two"}},
		{"nearly full", []*scripted{member(1, func(s *scripted) { s.status.DbSize = 1800 << 20 })}, []string{"warning quota", "note fragmented"}},
		{"slow", []*scripted{member(1, same), member(2, func(s *scripted) { s.delay = 3 * time.Second })}, []string{"warning slow"}},
		{"no reads", []*scripted{member(1, func(s *scripted) { s.read = rpctypes.ErrGRPCTimeout })}, []string{"error read-failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var endpoints []string
			for _, s := range tt.servers {
				endpoints = append(endpoints, s.start(t))
			}
			report, err := Examine(t.Context(), Config{Client: clientv3.Config{Endpoints: endpoints}, Timeout: testTimeout, Settle: time.Millisecond, Hash: true})
			require.NoError(t, err)
			requireCodes(t, report, tt.want...)
		})
	}
}

// A member may advertise URLs with a password, which neither the report nor a bundle shows.
func TestPasswordsInAdvertisedURLsAreHidden(t *testing.T) {
	dead, err := port.Reserve()
	require.NoError(t, err)
	defer dead.Release()
	one := member(1, func(s *scripted) {
		url := "http://root:hunter2@" + dead.Address()
		s.members = []*pb.Member{{ID: 1, Name: "one", ClientURLs: []string{url}, PeerURLs: []string{url}}}
	})
	var bundle []byte
	report, err := Examine(t.Context(), Config{
		Client: clientv3.Config{Endpoints: []string{one.start(t)}}, Timeout: testTimeout,
		Collect: func(f File) { bundle = append(bundle, f.Data...) },
	})
	require.NoError(t, err)
	for _, shown := range []string{report.Text(), string(bundle)} {
		assert.Contains(t, shown, "http://xxxxx@"+dead.Address())
		assert.NotContains(t, shown, "hunter2")
	}
}

// The Date of a server is cut off to a second, and is shown at some moment of the request.
func TestSkew(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sent, received := at.Add(400*time.Millisecond), at.Add(600*time.Millisecond)
	for date, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: 400 * time.Millisecond, -time.Second: -400 * time.Millisecond, time.Minute: time.Minute - 600*time.Millisecond,
		-time.Minute: -(time.Minute - 600*time.Millisecond),
	} {
		assert.Equal(t, want, skew(at.Add(date), sent, received), date)
	}
}

// A difference below a second is never a finding, and one above two seconds and the time of the request always is.
func TestSkewIsFound(t *testing.T) {
	const took = 200 * time.Millisecond
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for phase := time.Duration(0); phase < time.Second; phase += 50 * time.Millisecond {
		for _, answered := range []time.Duration{0, took} {
			for real, want := range map[time.Duration]bool{
				0: false, 999 * time.Millisecond: false, -999 * time.Millisecond: false, 2*time.Second + took: true, -2*time.Second - took: true,
			} {
				sent := begin.Add(phase)
				got := skew(sent.Add(answered+real).Truncate(time.Second), sent, sent.Add(took))
				assert.Equal(t, want, got.Abs() >= skewBound, "%v at %v", real, phase)
				assert.LessOrEqual(t, got.Abs(), real.Abs())
			}
		}
	}
}
