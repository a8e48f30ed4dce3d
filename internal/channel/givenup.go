package channel

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// givenUpError is the end of an attempt that was cut: its endpoint did not answer, and
// will not be waited for. That is what a member says of itself with ErrTimeout when
// its peers do not answer, so for programs that compare errors it is the same, and
// for those that look into the message too: the reason stands behind the member's
// words, as the member's own reasons do.
type givenUpError struct{ reason string }

func (e *givenUpError) Error() string { return e.GRPCStatus().Err().Error() }

// GRPCStatus makes it Unavailable for gRPC, like a connection that broke.
func (e *givenUpError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeout)+": "+e.reason)
}

func (e *givenUpError) Is(target error) bool { return target == rpctypes.ErrTimeout }
