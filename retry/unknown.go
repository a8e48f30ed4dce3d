package retry

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// UnknownOutcomeError is returned for a write that may or may not have been
// executed, for instance because the connection broke after the request had
// left. The client has not repeated it and will not: sent again, it could be
// executed twice. What to do is for the caller to decide: read back what the
// write would have changed, or make the write conditional (a Txn that compares
// a revision) and repeat it.
//
// For gRPC it looks like its cause: status.Code, status.FromError and
// rpctypes.ErrorDesc return the cause's code and message, and errors.Is and
// errors.As reach the cause. A write that was given up because its endpoint did
// not answer is rpctypes.ErrTimeout for errors.Is, and its status message begins
// with that error's text, whoever noticed: the member itself, or the client.
type UnknownOutcomeError struct {
	// Method is the full method of the call, "/package.Service/Method".
	Method string
	// Err is the cause: the error of the attempt whose outcome is unknown.
	Err error
}

// Error says that the outcome of the method is unknown, and why.
func (e *UnknownOutcomeError) Error() string {
	if e == nil {
		return "outcome unknown"
	}
	cause := "no cause given"
	if e.Err != nil {
		cause = e.Err.Error()
	}
	return "outcome of " + e.Method + " unknown: it may or may not have been executed, do not repeat it blindly: " + cause
}

// Unwrap returns the cause.
func (e *UnknownOutcomeError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// GRPCStatus returns the status of the cause, its code and message unchanged.
// A cause without a status is given the one that gRPC would give it: Canceled
// or DeadlineExceeded for a context error, Unknown for any other.
func (e *UnknownOutcomeError) GRPCStatus() *status.Status {
	if e == nil || e.Err == nil {
		return status.New(codes.Unknown, e.Error())
	}
	if withStatus, ok := e.Err.(grpcStatus); ok {
		if s := withStatus.GRPCStatus(); s.Code() != codes.OK {
			return s
		}
	}
	return status.New(codeAndMessage(e.Err))
}
