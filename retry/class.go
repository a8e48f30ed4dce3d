package retry

import "strconv"

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
