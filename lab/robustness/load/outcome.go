package load

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/retry"
)

// outcome tells how a call of the given kind ended. Whether a write that failed
// may have been executed is for the error handler of the client to say; a read
// has no effect, so its failure is never in doubt.
func outcome(k history.Kind, err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case k.Writes() && retry.OutcomeOf(err) != retry.OutcomeNotExecuted:
		return history.Unknown
	default:
		return history.Failed
	}
}

// code names the gRPC code of an error, those of etcd and of contexts included.
func code(err error) string {
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		return coded.Code().String()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return status.FromContextError(err).Code().String()
}
