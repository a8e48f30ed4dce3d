package model

import (
	"fmt"
	"time"
)

// Outcome is what a client knows about an operation in the end.
type Outcome string

// The outcomes.
const (
	// Answered means that there is a response.
	Answered Outcome = "answered"
	// Failed means that the operation failed and, if it writes, had no effect and
	// will have none.
	Failed Outcome = "failed"
	// Unknown means that a write may have taken effect, or may still.
	Unknown Outcome = "unknown"
)

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
	for i, op := range h.Operations {
		if err := op.validate(written); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

// validate adds the values that an operation writes to those written before.
func (op Operation) validate(written map[string]bool) error {
	if op.Return < op.Call {
		return fmt.Errorf("it ends at %v, before it begins at %v", op.Return, op.Call)
	}
	if op.Outcome != Answered && op.Outcome != Failed && op.Outcome != Unknown {
		return fmt.Errorf("it has the outcome %q, which there is not", op.Outcome)
	}
	for _, c := range op.Request.If {
		if err := validKey(c.Key); err != nil {
			return err
		}
	}
	for _, branch := range [][]Act{op.Request.Then, op.Request.Else} {
		for _, act := range branch {
			if err := validKey(act.Key); err != nil {
				return err
			}
			if act.Verb != Write {
				continue
			}
			if written[act.Value] {
				return fmt.Errorf("it writes the value %q, which was written before: values must be unique", act.Value)
			}
			written[act.Value] = true
		}
	}
	return nil
}

func validKey(key int) error {
	if key < 0 || key >= Keys {
		return fmt.Errorf("it uses the key %d: keys are 0 to %d", key, Keys-1)
	}
	return nil
}
