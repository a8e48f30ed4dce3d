// Package history says what the lab saw: of a call its kind and how it ended
// ([Outcome]); of one watch what its reader took from the channel ([Watch]); of a
// lease that its keeper found it gone ([LeaseEnd]); and which revisions the store can have
// had at a moment ([Clock]).
//
// These are the only things that those who make a load, those who check it and
// those who measure it share. All times are offsets from the beginning of the run,
// on the monotonic clock.
package history

import (
	"strings"

	"github.com/quorate/quorate/retry"
)

// Kind is a kind of call.
type Kind uint8

const (
	// LinearizableGet reads one key through the leader's quorum.
	LinearizableGet Kind = iota
	// SerializableGet reads one key from whatever state the member that answers has.
	SerializableGet
	// Put writes one key.
	Put
	// Txn writes two keys if the caller knows the first as it is, and reads that otherwise.
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

// OutcomeOf returns how a call ended. The error handler of the client decides whether a failed write may have been executed. A
// read has no effect, so its failure is always certain.
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
