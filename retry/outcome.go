package retry

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Outcome is what is known about the effect of a write.
type Outcome uint8

const (
	// OutcomeUnknown means: it may or may not have been executed, or may still be executed.
	OutcomeUnknown Outcome = iota
	// OutcomeNotExecuted means: it was not executed and will not be.
	OutcomeNotExecuted
	// OutcomeExecuted means: it was executed.
	OutcomeExecuted
)

var outcomeNames = []string{
	OutcomeUnknown: "Unknown", OutcomeNotExecuted: "NotExecuted", OutcomeExecuted: "Executed",
}

// String returns "Unknown", "NotExecuted" or "Executed", or "Outcome(n)" for
// any other value.
func (o Outcome) String() string {
	return nameOf("Outcome", outcomeNames, int(o))
}

// OutcomeOf returns what an error proves about the write that returned it (Put, Delete, a
// Txn that writes: any [Mutating] call):
//
//   - nil, and a [*ResponseLostError]: [OutcomeExecuted].
//   - an error with which etcd refuses a request before executing it, such as
//     rpctypes.ErrCompacted, bare, as a gRPC status or wrapped:
//     [OutcomeNotExecuted]. So is a [*NotSentError].
//   - everything else is [OutcomeUnknown]: an [*UnknownOutcomeError], whatever its cause, a timeout
//     of the server, a broken connection, an error that this package does not
//     know. That includes a bare context.Canceled or
//     context.DeadlineExceeded: a context that ended says nothing about a
//     request that was under way.
//
// The outcome concerns this call only. [OutcomeNotExecuted] does not mean that the state
// is unchanged: another client may have written the same. For a [Repeatable] call that
// changes something (Grant, Revoke, Alarm, MoveLeader) the client may have made several
// attempts, and the error describes the last one only.
//
// If the request was never sent, the evidence of the attempt proves more than the error;
// see [OutcomeOfAttempt].
func OutcomeOf(err error) Outcome {
	return OutcomeOfAttempt(err, Evidence{Sent: true})
}

// OutcomeOfAttempt is [OutcomeOf] with the evidence of the attempt: if nothing was sent,
// and the error is not an [*UnknownOutcomeError] about an earlier attempt, the outcome is
// [OutcomeNotExecuted] whatever the error is.
func OutcomeOfAttempt(err error, ev Evidence) Outcome {
	if is[*UnknownOutcomeError](err) {
		return OutcomeUnknown
	}
	if err == nil || is[*ResponseLostError](err) {
		return OutcomeExecuted
	}
	if !ev.Sent {
		return OutcomeNotExecuted
	}
	switch classify(err, ev) {
	case Definite, NotSent, Refused, NoLeader, Overloaded, Token:
		return OutcomeNotExecuted
	default:
		return OutcomeUnknown
	}
}

// UnknownOutcomeError is returned for a write that may or may not have been executed, for
// instance because the connection broke after the request was sent. The client does not
// repeat it, because it could be executed twice. The caller can read back the keys, or
// make the write conditional (a Txn that compares the ModRevision of an existing key and
// writes that key) and repeat it.
//
// It has the gRPC status of its cause: status.Code, status.FromError and
// rpctypes.ErrorDesc return the cause's code and message, and errors.Is and errors.As
// match the cause. If the write was cut because its endpoint did not answer, errors.Is
// matches rpctypes.ErrTimeout, and the status message begins with that error's text,
// whether the member or the client detected it.
type UnknownOutcomeError struct {
	// Method is the full method of the call, "/package.Service/Method".
	Method string
	// Err is the cause: the error of the attempt whose outcome is unknown.
	Err error
}

// Error returns a text with the method and the cause.
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

// GRPCStatus returns the status of the cause, its code and message unchanged. A cause
// without a status gets the status that gRPC would use: Canceled or DeadlineExceeded for
// a context error, Unknown for any other.
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

// NotSentError is returned for a write that was not executed and will not be, where the cause alone does not
// show that: its context ended while it waited to be sent (clientv3/batch), it was withdrawn before a
// server executed it (clientv3/idempotent), or it was over the server's limit for messages. errors.Is matches the cause.
type NotSentError struct {
	// Err is the cause, such as the error of the context.
	Err error
}

// Error returns a text with the cause.
func (e *NotSentError) Error() string { return fmt.Sprintf("not executed: %v", e.Err) }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// GRPCStatus returns the status of the cause, as that of an [UnknownOutcomeError] does.
func (e *NotSentError) GRPCStatus() *status.Status { return status.New(codeAndMessage(e.Err)) }

// ResponseLostError is returned by clientv3/idempotent for a write that was executed, once, and whose response
// is not available: the answer was lost, and what it said cannot be read any more, such as which branch of a Txn was
// taken. errors.Is matches the cause, such as rpctypes.ErrCompacted.
type ResponseLostError struct {
	// Revision is that of the write.
	Revision int64
	// Err is why the response cannot be read.
	Err error
}

// Error returns a text with the revision and the cause.
func (e *ResponseLostError) Error() string {
	return fmt.Sprintf("executed at revision %d, response lost: %v", e.Revision, e.Err)
}

// Unwrap returns the cause.
func (e *ResponseLostError) Unwrap() error { return e.Err }
