package model

import (
	"fmt"
	"time"
)

// Outcome is what a client knows about an operation in the end.
type Outcome uint8

// The outcomes.
const (
	// Answered means that there is a response.
	Answered Outcome = iota
	// Failed means that the operation failed and, if it writes, had no effect and
	// will have none.
	Failed
	// Unknown means that a write may have taken effect, or may still.
	Unknown
	// NumOutcomes is the number of outcomes.
	NumOutcomes
)

var outcomeNames = [NumOutcomes]string{Answered: "answered", Failed: "failed", Unknown: "unknown"}

// String returns the name of the outcome, such as "answered".
func (o Outcome) String() string {
	if o >= NumOutcomes {
		return "no outcome"
	}
	return outcomeNames[o]
}

// Operation is one operation as its client saw it.
type Operation struct {
	// Client that made it, from 0. A client makes one operation at a time.
	Client  int
	Request Request
	Outcome Outcome
	// Response if the outcome is Answered.
	Response Response
	// Err says why there is no response.
	Err string
	// Call and Return are when it began and ended, on one clock for all clients.
	Call, Return time.Duration
}

// History is everything that was asked of one group of keys, none of which existed
// before.
type History struct {
	// Operations in any order. A failed or unknown read says nothing and may be left
	// out.
	Operations []Operation
	// Claimed, if set, reports whether a revision is known to be that of a write of
	// another group. A write of unknown outcome that is not shared cannot have taken such a
	// revision, which leaves much less to search. Where nothing is known it says no.
	Claimed func(revision int64) bool
}

// validate returns an error for a history that the model has no answer for.
func (h History) validate() error {
	written := map[string]bool{}
	for i := range h.Operations {
		op := &h.Operations[i]
		if op.Return < op.Call {
			return fmt.Errorf("operation %d ends at %v, before it begins at %v", i, op.Return, op.Call)
		}
		if op.Outcome >= NumOutcomes {
			return fmt.Errorf("operation %d has the outcome %d, which there is not", i, op.Outcome)
		}
		for _, c := range op.Request.If {
			if c.Key < 0 || c.Key >= Keys {
				return fmt.Errorf("operation %d compares the key %d: keys are 0 to %d", i, c.Key, Keys-1)
			}
		}
		for _, branch := range [][]Act{op.Request.Then, op.Request.Else} {
			for _, act := range branch {
				if act.Key < 0 || act.Key >= Keys {
					return fmt.Errorf("operation %d uses the key %d: keys are 0 to %d", i, act.Key, Keys-1)
				}
				if act.Verb != Write {
					continue
				}
				if written[act.Value] {
					return fmt.Errorf("operation %d writes the value %q, which was written before: values must be unique", i, act.Value)
				}
				written[act.Value] = true
			}
		}
	}
	return nil
}
