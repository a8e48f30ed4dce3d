package model

import (
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Outcome is what a client knows about an operation in the end.
type Outcome = history.Outcome

// The outcomes.
const (
	Answered = history.OK
	Failed   = history.Failed
	Unknown  = history.Unknown
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
	// Operations in any order, on keys from 0 to below [Keys]. No two write the same value. A failed or unknown read says
	// nothing and may be left out.
	Operations []Operation
	// Claimed, if set, reports whether a revision is known to be that of a write of
	// another group. A write of unknown outcome that is not shared cannot have taken such a
	// revision, which leaves much less to search. Where nothing is known it says no.
	Claimed func(revision int64) bool
}
