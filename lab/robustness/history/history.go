// Package history says what the lab saw: of one call its kind, the key that it
// touched, when it ran and what came back ([Call]); of one watch what its reader
// took from the channel ([Watch]); of a lease what its keeper found ([LeaseLook]);
// and which revisions the store can have had at a moment ([Clock]).
//
// These are the only things that those who make a load, those who check it and
// those who measure it share. All times are offsets from the beginning of the run,
// on the monotonic clock.
package history

import (
	"strings"
	"time"

	"github.com/quorate/quorate/retry"
)

// Kind is a kind of call.
type Kind uint8

const (
	// LinearizableGet reads one key through the leader's quorum.
	LinearizableGet Kind = iota
	// SerializableGet reads one key from whatever state the asked member has.
	SerializableGet
	// Put writes a key that is never written again.
	Put
	// Txn increments the caller's counter if it still has the value that the
	// caller last knew, and writes a key of its own beside it.
	Txn
	// NumKinds is the number of kinds.
	NumKinds
)

var kindNames = [NumKinds]string{"linearizable get", "serializable get", "put", "txn"}

// Kinds returns every kind, in the order in which reports list them.
func Kinds() []Kind {
	return []Kind{LinearizableGet, SerializableGet, Put, Txn}
}

// String returns the name for people, such as "linearizable get".
func (k Kind) String() string { return kindNames[k] }

// MarshalText returns the name for programs, such as "linearizable_get".
func (k Kind) MarshalText() ([]byte, error) {
	return []byte(strings.ReplaceAll(k.String(), " ", "_")), nil
}

// Writes reports whether a call of this kind may change the store.
func (k Kind) Writes() bool { return k == Put || k == Txn }

// Outcome says how a call ended.
type Outcome uint8

const (
	// OK means that the call was answered.
	OK Outcome = iota
	// Failed means that the call ended with an error, and that it certainly had
	// no effect if it is a write.
	Failed
	// Unknown means that the call was a write and may or may not have been
	// executed.
	Unknown
	// Abandoned means that the run ended before the call did. The meter counts
	// it nowhere; to the checker, a write that was abandoned is unknown.
	Abandoned
)

// String returns the name for people.
func (o Outcome) String() string {
	return [...]string{"answered", "failed", "unknown", "abandoned"}[o]
}

// OutcomeOf returns how a call ended. Whether a write that failed may have been executed is for the error handler of the client
// to say; a read has no effect, so its failure is never in doubt.
func OutcomeOf(writes bool, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case writes && retry.OutcomeOf(err) != retry.OutcomeNotExecuted:
		return Unknown
	default:
		return Failed
	}
}

// Call is one call of the load. The fields up to Start are known when it is
// invoked, the others once it has ended.
type Call struct {
	// Kind of the call.
	Kind Kind
	// Caller numbers the callers of one kind from 0.
	Caller int
	// Key is the key that a get reads, a put writes, or a txn writes beside its
	// counter. One that is written has its own name as its value, so that a value
	// which strayed to another key is recognised.
	Key string
	// Counter is the key that a Txn increments, and Want the value at which it
	// expects it.
	Counter string
	Want    int64
	// Start is when the call was invoked.
	Start time.Duration

	// End is when the call returned to its caller.
	End time.Duration
	// Outcome says how it ended.
	Outcome Outcome
	// Err is the error, nil when Outcome is OK.
	Err error
	// Revision is the store revision of the response header; 0 unless OK.
	Revision int64
	// Applied reports whether the comparison of a Txn held, so that it wrote.
	Applied bool
	// Read is what a get found, or what a Txn that was not applied found in its
	// counter.
	Read Reading
}

// Wrote reports whether an answered call changed the store.
func (c *Call) Wrote() bool { return c.Kind == Put || c.Applied }

// Reading is what a read found at a key.
type Reading struct {
	// Found reports whether the key exists; the other fields are zero if not.
	Found bool
	// Value of the key.
	Value string
	// ModRevision is the revision of the last write to the key.
	ModRevision int64
}
