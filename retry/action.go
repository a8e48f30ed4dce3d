package retry

import "slices"

// Action is what to do after an attempt.
type Action uint8

const (
	// Return the result to the caller as it is.
	Return Action = iota
	// ReturnUnknown returns the error as an *UnknownOutcomeError.
	ReturnUnknown
	// Again repeats the call after a backoff, on another endpoint if there is one.
	Again
	// Refresh obtains a new token and repeats the call, a few times per call at most:
	// while users are being changed, a cluster may refuse a new token too.
	Refresh
)

var actionNames = []string{
	Return: "Return", ReturnUnknown: "ReturnUnknown", Again: "Again", Refresh: "Refresh",
}

// String returns the name of the constant, or "Action(n)" for any other value.
func (a Action) String() string {
	return nameOf("Action", actionNames, int(a))
}

// Decision is one row of the matrix of [Decide].
type Decision struct {
	Class Class
	// Mutating and Repeatable are the actions for calls of that safety.
	Mutating, Repeatable Action
	// Reason says in one sentence why.
	Reason string
}

var decisions = [numClasses]Decision{
	OK:         {OK, Return, Return, "There is a result."},
	Definite:   {Definite, Return, Return, "The call failed, a repetition would fail too, and nothing was executed."},
	NotSent:    {NotSent, Again, Again, "The client sent nothing, so this is the first execution."},
	Refused:    {Refused, Again, Again, "Nothing was executed, and another member may accept."},
	NoLeader:   {NoLeader, Again, Again, "Nothing was executed; another member may know a leader, and elections end."},
	Overloaded: {Overloaded, Again, Again, "Nothing was executed; the backoff gives the server time."},
	Token:      {Token, Refresh, Refresh, "Nothing was executed; a new token may be accepted."},
	Ambiguous:  {Ambiguous, ReturnUnknown, Again, "It may have been executed: only a call that may be executed twice is repeated, and only if its code is in the policy's retryableStatusCodes."},
	Executed:   {Executed, ReturnUnknown, Return, "A repetition would end the same way, and a write may have been executed."},
	Ended:      {Ended, Return, Return, "The caller does not wait any longer."},
	Closed:     {Closed, Return, Return, "The client has no connections, now or later."},
}

// Decisions returns the matrix of [Decide], one row per class.
func Decisions() []Decision {
	return slices.Clone(decisions[:])
}

// Decide returns the action for a call of the given safety after an attempt of the given
// class. Values that are not constants of their type get the safest treatment: an unknown
// class counts as [Ambiguous], an unknown safety as [Mutating].
//
// For a [Repeatable] call after an [Ambiguous] attempt the action is [Again], subject to
// [Policy.Retryable] for the code ([CodeOf]). No policy turns any other action into
// [Again].
func Decide(c Class, s Safety) Action {
	if int(c) >= numClasses {
		c = Ambiguous
	}
	if s == Repeatable {
		return decisions[c].Repeatable
	}
	return decisions[c].Mutating
}
