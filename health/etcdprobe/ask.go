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

	"github.com/quorate/quorate/health"
)

// probeKey is the key that is counted. It need not exist, nor be one that the client may
// read.
const probeKey = "\x00quorate-probe"

// question is one of the calls that make a probe.
type question uint8

const (
	ofHealth question = iota
	ofStatus
	ofRange
)

// finding is what a call found. If there was no answer, the report is its zero value.
type finding struct {
	of       question
	answered bool
	report   health.Report
}

// showsLife reports whether the finding shows that the member is alive, and no more.
func (f finding) showsLife() bool {
	return f.report.Kind == health.Answered && f.report.Err == nil && f.report.Role == nil
}

func found(of question, r health.Report) finding {
	return finding{of: of, answered: true, report: r}
}

func askHealth(ctx context.Context, conn grpc.ClientConnInterface) finding {
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	switch {
	case err != nil:
		f := failed(ofHealth, err)
		if f.report.Kind == health.Answered {
			f.report.Err = nil // that there is no health service is nobody's fault
		}
		return f
	case resp.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING:
		return found(ofHealth, health.Report{Kind: health.Refusing})
	default:
		return found(ofHealth, health.Report{Kind: health.Answered})
	}
}

func askStatus(ctx context.Context, conn grpc.ClientConnInterface) finding {
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return failed(ofStatus, err)
	}
	role := roleOf(resp)
	switch {
	case role.Learner:
		return found(ofStatus, health.Report{Kind: health.NonVoting, Role: role})
	case role.Leader == 0:
		return found(ofStatus, health.Report{Kind: health.Leaderless, Role: role})
	default:
		return found(ofStatus, health.Report{Kind: health.Answered, Role: role})
	}
}

func askRange(ctx context.Context, conn grpc.ClientConnInterface) finding {
	_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte(probeKey), CountOnly: true})
	if err != nil {
		return failed(ofRange, err)
	}
	return found(ofRange, health.Report{Kind: health.Served})
}

// failed returns what an error shows.
func failed(of question, err error) finding {
	known := rpctypes.Error(err)
	switch {
	case errors.Is(known, rpctypes.ErrNoLeader):
		return found(of, health.Report{Kind: health.Leaderless, Err: err})
	case errors.Is(known, errNotForLearners):
		return found(of, health.Report{Kind: health.NonVoting, Err: err})
	case errors.Is(known, rpctypes.ErrStopped):
		return found(of, health.Report{Kind: health.Refusing, Err: err})
	case of == ofRange && refusedAfterRead(known):
		return found(of, health.Report{Kind: health.Served})
	case isEtcds(known) || health.FromServer(err):
		return found(of, health.Report{Kind: health.Answered, Err: err})
	default:
		return finding{of: of}
	}
}

// errNotForLearners has no name of its own among the errors of clients.
var errNotForLearners = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// refusedAfterRead reports whether the error is one that etcd finds when it has the read
// index from its leader, has applied up to that, and only then looks who asks.
func refusedAfterRead(known error) bool {
	for _, e := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty, rpctypes.ErrAuthOldRevision,
	} {
		if errors.Is(known, e) {
			return true
		}
	}
	return false
}

// isEtcds reports whether the error is one of those that etcd, and nothing on the way to
// it, gives, whatever its code.
func isEtcds(known error) bool {
	var e rpctypes.EtcdError
	return errors.As(known, &e)
}

func roleOf(s *pb.StatusResponse) *health.Role {
	return &health.Role{
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
// is a message in text form, such as "memberID:1 alarm:NOSPACE". All members tell the
// alarms of all, so that a name can occur more than once.
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
