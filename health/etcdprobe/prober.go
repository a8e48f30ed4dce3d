package etcdprobe

import (
	"context"
	"errors"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/health"
)

// probeKey is the key that is counted. It need not exist, nor be readable by the client.
const probeKey = "\x00quorate-probe"

// Details of reports.
const (
	noLeader = "no leader"
	learner  = "learner"
)

// Service probes whether a member does its work. It reports Served, Degrading for a member
// without a leader, Restricting for a learner, Refusing for one that is stopping, and
// Answered for any other response.
type Service struct{}

var _ health.Prober = Service{}

// Probe counts one key, linearizably.
func (Service) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	resp, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte(probeKey), CountOnly: true})
	if err == nil || refusedAfterRead(rpctypes.Error(err)) {
		report(health.Report{Kind: health.Served, Term: resp.GetHeader().GetRaftTerm()})
		return
	}
	reportError(err, report)
}

// Liveness probes for a sign of life. It reports Refusing if the member's health service
// returns NOT_SERVING (while it defragments, with the feature gate
// StopGRPCServiceOnDefrag), and Answered for any other response.
type Liveness struct{}

var _ health.Prober = Liveness{}

// Probe calls grpc.health.v1. A server without that service is alive too.
func (Liveness) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	switch {
	case err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING:
		report(health.Report{Kind: health.Refusing})
	case err == nil || health.FromServer(err):
		report(health.Report{Kind: health.Answered})
	}
}

// Status requests a member's role. Its reports have a [Role] as Info, unless they have an
// error. It reports Degrading for a member without a leader, Restricting for a learner,
// Refusing for one that is stopping, and Answered for any other response.
type Status struct{}

var _ health.Prober = Status{}

// Probe calls Maintenance.Status.
func (Status) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		reportError(err, report)
		return
	}
	role := roleOf(resp)
	switch {
	case role.Learner:
		report(health.Report{Kind: health.Restricting, Detail: learner, Info: role})
	case role.Leader == 0:
		report(health.Report{Kind: health.Degrading, Detail: noLeader, Info: role})
	default:
		report(health.Report{Kind: health.Answered, Info: role})
	}
}

// reportError reports the evidence of an error, if it comes from the server.
func reportError(err error, report func(health.Report)) {
	known := rpctypes.Error(err)
	switch {
	case errors.Is(known, rpctypes.ErrNoLeader):
		report(health.Report{Kind: health.Degrading, Detail: noLeader, Err: err})
	case errors.Is(known, errNotForLearners):
		report(health.Report{Kind: health.Restricting, Detail: learner, Err: err})
	case errors.Is(known, rpctypes.ErrStopped):
		report(health.Report{Kind: health.Refusing, Err: err})
	case isFromEtcd(known) || health.FromServer(err):
		report(health.Report{Kind: health.Answered, Err: err})
	}
}

// errNotForLearners is not exported by rpctypes as a client error.
var errNotForLearners = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// refusedAfterRead reports whether etcd returns the error only after it has obtained the
// read index from its leader and applied up to it.
func refusedAfterRead(known error) bool {
	return errors.Is(known, rpctypes.ErrPermissionDenied) || errors.Is(known, rpctypes.ErrInvalidAuthToken) ||
		errors.Is(known, rpctypes.ErrUserEmpty) || errors.Is(known, rpctypes.ErrAuthOldRevision)
}

// isFromEtcd reports whether only etcd, and no proxy in between, returns the error, whatever
// its code.
func isFromEtcd(known error) bool {
	_, ok := errors.AsType[rpctypes.EtcdError](known)
	return ok
}

// Role is a member's report about itself: the Info of a [health.Status].
type Role struct {
	// ID is the member's ID. Leader is the ID of the leader that it knows, 0 for none.
	ID, Leader uint64
	// Term is the raft term.
	Term uint64
	// Applied is the raft index that the member has applied.
	Applied uint64
	// Learner is set if the member has no vote.
	Learner bool
	// Version is the server's version, "" if unknown.
	Version string
	// Alarms are the names of the active alarms, such as "NOSPACE", each once.
	Alarms []string
}

// IsLeader reports whether the member is the leader.
func (r Role) IsLeader() bool { return r.Leader != 0 && r.Leader == r.ID }

// RoleOf returns an endpoint's latest reported role; the zero Role if there is none.
func RoleOf(s *health.Status) Role {
	role, _ := s.Info.(Role)
	return role
}

func roleOf(s *pb.StatusResponse) Role {
	return Role{
		ID:      s.GetHeader().GetMemberId(),
		Leader:  s.GetLeader(),
		Term:    s.GetRaftTerm(),
		Applied: s.GetRaftAppliedIndex(),
		Learner: s.GetIsLearner(),
		Version: s.GetVersion(),
		Alarms:  alarms(s.GetErrors()),
	}
}

// alarms returns the names of the alarms among the errors of a status, sorted, where each
// is a message in text form, such as "memberID:1 alarm:NOSPACE". Every member lists the
// alarms of all, so a name can occur more than once.
func alarms(errs []string) []string {
	var names []string
	for _, e := range errs {
		for field := range strings.FieldsSeq(e) {
			if name, ok := strings.CutPrefix(field, "alarm:"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
