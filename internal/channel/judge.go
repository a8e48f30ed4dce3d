package channel

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/retry"
)

// verdicts are the errors by which a member speaks for itself, by their texts: not
// all of them have a variable for clients.
var verdicts = func() map[string]health.Kind {
	byText := make(map[string]health.Kind)
	for err, kind := range map[error]health.Kind{
		rpctypes.ErrGRPCNoLeader:               health.Leaderless,
		rpctypes.ErrGRPCNotSupportedForLearner: health.NonVoting,
		rpctypes.ErrGRPCStopped:                health.Refusing,
		rpctypes.ErrGRPCNotCapable:             health.Refusing,

		// The member waited in vain for the cluster, longer than an election takes.
		rpctypes.ErrGRPCTimeout:                    health.Stalled,
		rpctypes.ErrGRPCTimeoutDueToLeaderFail:     health.Stalled,
		rpctypes.ErrGRPCTimeoutDueToConnectionLost: health.Stalled,
	} {
		byText[rpctypes.ErrorDesc(err)] = kind
	}
	return byText
}()

// judge says what an error that a member answered shows of it; ok is false if it
// shows nothing.
func judge(err error) (kind health.Kind, ok bool) {
	if kind, ok = verdicts[rpctypes.ErrorDesc(err)]; ok {
		return kind, true
	}
	if retry.SpeaksNoGRPC(err) {
		return health.Refusing, true // it is no member
	}
	return 0, false
}

// isFault reports whether an error is the server's or the network's fault, and not
// that of the request or of a caller who gave up. The end of a deadline is taken
// for the caller's: the time that it took tells the rest.
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
