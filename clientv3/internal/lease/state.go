package lease

import "strconv"

// State is what is to be done for a lease.
type State uint8

const (
	// Waiting says that the lease was renewed, and the next renewal is not due yet.
	Waiting State = iota
	// Due says that a request is to be sent as soon as a stream takes it.
	Due
	// Awaiting says that a request was sent and is unanswered.
	Awaiting
	// Repeating is Awaiting, and somebody has come since for whom the answer will
	// not do. When it is here, another request is Due.
	Repeating
	// Abandoned says that a request was sent and is unanswered, and that nobody is
	// interested any more. The lease is remembered so that its answer is not taken
	// for that to a later request.
	Abandoned
	// Gone says that the lease is not known to the machine, or not any more.
	Gone

	numStates = int(Gone) + 1
)

var stateNames = [numStates]string{
	Waiting: "Waiting", Due: "Due", Awaiting: "Awaiting",
	Repeating: "Repeating", Abandoned: "Abandoned", Gone: "Gone",
}

// String returns the name of the constant, or "State(n)" for any other value.
func (s State) String() string {
	if int(s) < numStates {
		return stateNames[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// unanswered reports whether the stream owes an answer.
func (s State) unanswered() bool { return s == Awaiting || s == Repeating || s == Abandoned }

// phase is what the machine knows of the stream.
type phase uint8

const (
	down    phase = iota // there is none
	opening              // it is being opened
	open                 // requests can be sent
)
