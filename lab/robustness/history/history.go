// Package history says what the lab saw: of a call how it ended ([Outcome]); of one watch what its reader took from the channel
// ([Watch]); and which revisions the store can have had at a moment ([Clock]).
//
// These are the only things that those who make a load, those who check it and
// those who measure it share. All times are offsets from the beginning of the run,
// on the monotonic clock.
package history

import "github.com/quorate/quorate/retry"

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
)

// String returns the name for people.
func (o Outcome) String() string {
	return [...]string{"answered", "failed", "unknown"}[o]
}

// OutcomeOf returns how a call ended. Package retry decides whether a failed write may have been executed. A read has no
// effect, so its failure is always certain.
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
