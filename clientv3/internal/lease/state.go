package lease

// State is the state of a lease in the machine.
type State uint8

const (
	// Waiting says that the lease was renewed, and the next renewal is not due yet.
	Waiting State = iota
	// Due says that a request will be sent as soon as a stream is open.
	Due
	// Awaiting says that a request was sent and is unanswered.
	Awaiting
	// Repeating is Awaiting with a later subscriber that needs another request.
	// When the answer arrives, the lease is Due.
	Repeating
	// Abandoned says that a request is unanswered and the lease has no subscribers.
	// The lease is kept so that its answer is not matched to a later request.
	Abandoned
	// Gone says that the machine does not know the lease, or no longer.
	Gone
)

// unanswered reports whether a request awaits its answer.
func (s State) unanswered() bool { return s == Awaiting || s == Repeating || s == Abandoned }

type phase uint8

const (
	down    phase = iota // no stream
	opening              // it is being opened
	open                 // requests can be sent
)
