package retry

import "strconv"

// Class says what the end of one attempt proves about the call.
type Class uint8

const (
	// OK says that the call succeeded.
	OK Class = iota
	// Definite says that the call failed for a reason that a repetition would meet
	// again, and it had no effect and will have none.
	Definite
	// NotSent says that no byte of the request left this client.
	NotSent
	// Refused says that this member refused before executing, for a reason of its own;
	// another member may accept. Repeating makes sense while there is an
	// endpoint that has not refused this call, and is pointless after that.
	Refused
	// NoLeader says that the member knows no leader and refused before executing.
	// A caller who asked to learn that (metadata "hasleader") learns it when every
	// endpoint has said it; for others the call waits for an election.
	NoLeader
	// Overloaded says that the server refused before executing because it is behind
	// with its work; after a backoff it may accept.
	Overloaded
	// Token says that the server refused before executing because it does not accept
	// the credential (any more); a new token may help. Where there is no
	// user name and password to get one with, and for Authenticate itself,
	// the failure is definite.
	Token
	// Ambiguous says that the request may or may not have been executed.
	Ambiguous
	// Executed says that the server got as far as answering, or may have, and repeating
	// would end the same way: the result cannot be delivered. For a write the
	// outcome counts as unknown, see the table for each case.
	Executed
	// Ended says that the caller's context ended, whatever the server did.
	Ended
	// Closed says that the client was closed.
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
	if int(c) < numClasses {
		return classNames[c]
	}
	return "Class(" + strconv.Itoa(int(c)) + ")"
}

// Classes returns every class, in the order of its constants.
func Classes() []Class {
	cs := make([]Class, numClasses)
	for i := range cs {
		cs[i] = Class(i)
	}
	return cs
}
