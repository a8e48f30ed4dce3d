package retry

import (
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
)

// Class is what the end of one attempt proves about the call.
type Class uint8

const (
	// OK means: the call succeeded.
	OK Class = iota
	// Definite means: the call failed, a repetition would fail for the same reason, and it has
	// no effect, now or later.
	Definite
	// NotSent means: the client sent no byte of the request.
	NotSent
	// Refused means: this member refused before executing, for a reason of its own; another
	// member may accept. The call is repeated until every endpoint has refused it.
	Refused
	// NoLeader means: the member knows no leader and refused before executing. A call with
	// metadata "hasleader" fails once every endpoint has reported it; other calls wait
	// for an election.
	NoLeader
	// Overloaded means: the server, or its connection, refused before executing because it has too much to do; it may
	// accept after a backoff.
	Overloaded
	// Token means: the server refused before executing because the token is invalid or has
	// expired; a new token may help. Without a user name and password to get one, and for
	// Authenticate itself, the failure is definite.
	Token
	// Ambiguous means: the request may or may not have been executed.
	Ambiguous
	// Executed means: the server executed the request, or may have, but its result cannot be
	// delivered, and a repetition would end the same way. For a write the outcome counts
	// as unknown; the tables list each case.
	Executed
	// Ended means: the caller's context ended, whatever the server did.
	Ended
	// Closed means: the client was closed.
	Closed

	numClasses = int(Closed) + 1
)

var classNames = [numClasses]string{
	OK: "OK", Definite: "Definite", NotSent: "NotSent", Refused: "Refused",
	NoLeader: "NoLeader", Overloaded: "Overloaded", Token: "Token",
	Ambiguous: "Ambiguous", Executed: "Executed", Ended: "Ended", Closed: "Closed",
}

// String returns the name of the constant, or "Class(n)" for any other value.
func (c Class) String() string {
	return nameOf("Class", classNames[:], int(c))
}

// nameOf returns the name of a constant, or "Kind(n)" for any other value.
func nameOf(kind string, names []string, n int) string {
	if n < len(names) {
		return names[n]
	}
	return kind + "(" + strconv.Itoa(n) + ")"
}

// Classes returns every class, in the order of its constants.
func Classes() []Class {
	cs := make([]Class, numClasses)
	for i := range cs {
		cs[i] = Class(i)
	}
	return cs
}

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

// CodeRule is the class of a status with an unknown text, for a request that may have
// been sent.
type CodeRule struct {
	Code  codes.Code
	Class Class
	// Reason says in one sentence why.
	Reason string
}

// Codes returns the class of each gRPC code for a status whose text is in no
// other table. A code that gRPC does not define is [Ambiguous].
//
// When nothing was sent, Unavailable, Canceled and DeadlineExceeded are
// [NotSent] instead, and every other code is [Definite].
func Codes() []CodeRule {
	return slices.Clone(codeRules)
}

func codeRule(code codes.Code) CodeRule {
	if int(code) < len(codeRules) {
		return codeRules[code]
	}
	return ambiguous(code, "gRPC does not define this code.")
}

const (
	saidByHandler   = "The server rejected the request, and would reject a repetition."
	saidInTheMiddle = "The error may occur in the middle of the work."
)

// codeRules has the rule of each code, in the order of the codes.
var codeRules = []CodeRule{
	ambiguous(codes.OK,
		"An error with this code contradicts itself and proves nothing."),
	ambiguous(codes.Canceled,
		"The caller's context lives, so the server, a proxy or an inner context gave up, possibly in the middle of the work."),
	ambiguous(codes.Unknown,
		"Anything without a code ends here."),
	definite(codes.InvalidArgument, saidByHandler),
	ambiguous(codes.DeadlineExceeded,
		"The caller's context lives, so the server's or a proxy's own deadline passed. etcd returns it when it could not pass a request to Raft in time, and does not know whether Raft accepted it."),
	definite(codes.NotFound, saidByHandler),
	definite(codes.AlreadyExists, saidByHandler),
	definite(codes.PermissionDenied, saidByHandler),
	ambiguous(codes.ResourceExhausted,
		"Servers and proxies return it before the execution, gRPC's own limits after it."),
	definite(codes.FailedPrecondition, saidByHandler),
	ambiguous(codes.Aborted, saidInTheMiddle),
	definite(codes.OutOfRange, saidByHandler),
	definite(codes.Unimplemented,
		"The gRPC library of the server returns it for an unknown method."),
	ambiguous(codes.Internal,
		"Broken framing, a reset stream or a fault of the server, at any time."),
	ambiguous(codes.Unavailable,
		"Every call on a broken connection gets it, executed or not."),
	ambiguous(codes.DataLoss, saidInTheMiddle),
	definite(codes.Unauthenticated,
		"A credential was refused before the request was handled; etcd's own errors for this are in the table of server errors."),
}

func ambiguous(code codes.Code, reason string) CodeRule { return CodeRule{code, Ambiguous, reason} }

func definite(code codes.Code, reason string) CodeRule { return CodeRule{code, Definite, reason} }
