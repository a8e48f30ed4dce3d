package retry

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
