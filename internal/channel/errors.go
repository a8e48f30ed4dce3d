package channel

import (
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/retry"
)

// ErrClosed is what calls on a closed Channel fail with: what grpc answers to calls on a
// closed ClientConn.
var ErrClosed = status.Error(codes.Canceled, "grpc: the client connection is closing")

// cutError is the end of an attempt that was cut. A member says the same with ErrTimeout
// when its peers do not answer, so the error is that one for programs that compare errors
// or look into the message; the reason follows.
type cutError struct{ reason error }

func (e *cutError) Error() string { return e.GRPCStatus().Err().Error() }

// GRPCStatus makes it Unavailable for gRPC, like a connection that broke.
func (e *cutError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeout)+": "+status.Convert(e.reason).Message())
}

func (e *cutError) Is(target error) bool { return target == rpctypes.ErrTimeout }

// isEtcds reports whether an error is one of etcd's own, and not of a proxy before it.
func isEtcds(err error) bool {
	var known rpctypes.EtcdError
	return errors.As(rpctypes.Error(err), &known)
}

// statements are the errors by which a member says something of itself, by their texts:
// not all of them have a variable for clients.
var statements = func() map[string]health.Kind {
	byText := make(map[string]health.Kind)
	for err, kind := range map[error]health.Kind{
		rpctypes.ErrGRPCNoLeader:               health.Degrading,
		rpctypes.ErrGRPCNotSupportedForLearner: health.Restricting,
		rpctypes.ErrGRPCStopped:                health.Refusing,
		rpctypes.ErrGRPCNotCapable:             health.Refusing,

		// The member waited in vain for the cluster, for a request that may be long past.
		rpctypes.ErrGRPCTimeout:                    health.Suspicious,
		rpctypes.ErrGRPCTimeoutDueToLeaderFail:     health.Suspicious,
		rpctypes.ErrGRPCTimeoutDueToConnectionLost: health.Suspicious,
	} {
		byText[rpctypes.ErrorDesc(err)] = kind
	}
	return byText
}()

// classify says what an error that a member answered shows of it; ok is false if it shows
// nothing.
func classify(err error) (kind health.Kind, ok bool) {
	if kind, ok = statements[rpctypes.ErrorDesc(err)]; ok {
		return kind, true
	}
	if retry.SpeaksNoGRPC(err) {
		return health.Refusing, true // it is no member
	}
	return 0, false
}

// isFault reports whether an error is the server's or the network's fault, and not that of
// the request or of a caller who gave up. The end of a deadline is taken for the caller's:
// the time that it took tells the rest.
func isFault(err error) bool {
	switch retry.Classify(err, retry.Evidence{Sent: true}) {
	case retry.Refused, retry.NoLeader, retry.Overloaded:
		return true
	case retry.Ambiguous:
		code := retry.CodeOf(err)
		return code != codes.Canceled && code != codes.DeadlineExceeded
	default:
		return false
	}
}
