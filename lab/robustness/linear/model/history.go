// Package model models a few keys of an etcd store, and checks that the answers that
// clients got are linearizable.
//
// [Record.Check] has all operations on one group of keys, with when each was called,
// when it ended and how, and every event of these keys. One order of the operations must
// explain every answer and every event: each operation takes effect at one moment between
// its call and its return, and the answers are those of a store that executes one operation
// after the other. Values, versions, create and mod revisions and the revisions of
// response headers all belong to an answer.
//
// How an operation ended decides what it may have done:
//
//   - [Answered]: it took effect once, at the revision of its answer.
//   - [Failed]: it took no effect. When there is an event of what it would have written, the
//     history is not linearizable.
//   - [Unknown]: it took effect once, at any moment after its call, even long after
//     its end, or never. The events tell.
package model

import (
	"time"

	"github.com/quorate/quorate/lab/robustness/history"
)

// Keys is the number of keys of a group. Transactions span them, so a group is what
// is checked as a whole; groups are independent.
const Keys = 3

// Kind is what a client calls an operation.
type Kind string

// The kinds of operations.
const (
	// Get reads one key.
	Get Kind = "get"
	// SerializableGet reads one key as it was at some earlier moment. Its answer
	// must be that of the store at the revision of its header.
	SerializableGet Kind = "serializable get"
	// Snapshot reads keys in a transaction.
	Snapshot Kind = "snapshot"
	// Put writes one key.
	Put Kind = "put"
	// Delete deletes one key.
	Delete Kind = "delete"
	// Txn is a transaction that may write.
	Txn Kind = "txn"
)

// Writes reports whether operations of the kind may change the store.
func (k Kind) Writes() bool { return k == Put || k == Delete || k == Txn }

// Request is one operation, as a transaction: a plain get, put or delete has no
// comparisons and one act.
type Request struct {
	// Kind by which it is counted.
	Kind Kind `json:"kind"`
	// Shared says that the operation may have travelled with others in one RPC. Writes that did
	// have one revision, and no key in common.
	Shared bool `json:"shared,omitzero"`
	// Cached says that the operation is a get that may be answered from a cache.
	Cached bool `json:"cached,omitzero"`
	// If holds when all its comparisons do; without any it does.
	If []Compare `json:"if,omitempty"`
	// Then is done if If holds, Else if it does not. An act must not write a key
	// that another act of the branch writes; etcd refuses that.
	Then []Act `json:"then"`
	Else []Act `json:"else,omitempty"`
}

// Verb is what is done to a key.
type Verb string

// The verbs.
const (
	// Read returns the key.
	Read Verb = "read"
	// Write puts a value.
	Write Verb = "write"
	// Remove deletes the key.
	Remove Verb = "remove"
)

// Act is one thing that is done to one key.
type Act struct {
	Verb Verb `json:"verb"`
	// Key is its number in the group, from 0 to [Keys]-1.
	Key int `json:"key"`
	// Value that is put. Only acts of one branch may put the same one.
	Value string `json:"value,omitzero"`
	// Prev asks a Write or Remove to return what was there before.
	Prev bool `json:"prev,omitzero"`
	// MissingLease puts the value under a lease that does not exist. The store then
	// refuses the whole branch.
	MissingLease bool `json:"missingLease,omitzero"`
}

// Target is what a comparison looks at.
type Target string

// The targets.
const (
	// Value compares the value. No such comparison holds for an absent key.
	Value Target = "value"
	// Version compares the version, 0 for an absent key.
	Version Target = "version"
	// CreateRevision compares the revision at which the key was created, 0 for an
	// absent key.
	CreateRevision Target = "create revision"
	// ModRevision compares the revision at which the key was written last, 0 for an
	// absent key.
	ModRevision Target = "mod revision"
)

// Compare is one comparison of a transaction.
type Compare struct {
	// Key is its number in the group.
	Key    int    `json:"key"`
	Target Target `json:"target"`
	// NotEqual makes it hold when what is compared differs.
	NotEqual bool `json:"notEqual,omitzero"`
	// Value to compare with if that is the target, and Number if it is another.
	Value  string `json:"value,omitzero"`
	Number int64  `json:"number,omitzero"`
}

// KV is a key as a server shows it; the zero KV is an absent one.
type KV struct {
	Value          string `json:"value"`
	CreateRevision int64  `json:"createRevision"`
	ModRevision    int64  `json:"modRevision"`
	Version        int64  `json:"version"`
}

// Result is the result of an act.
type Result struct {
	// KV is what was read, or for an act with Prev what was there before.
	KV KV `json:"kv,omitzero"`
	// Deleted is how many keys a Remove deleted.
	Deleted int64 `json:"deleted,omitzero"`
}

// Response is the answer to a Request.
type Response struct {
	// Revision of the header.
	Revision int64 `json:"revision"`
	// Succeeded reports whether the branch Then was taken. A request without
	// comparisons always succeeds.
	Succeeded bool `json:"succeeded"`
	// Results of the acts of the branch, in their order.
	Results []Result `json:"results,omitempty"`
}

// Branch returns the acts of a branch.
func (r Request) Branch(succeeded bool) []Act {
	if succeeded {
		return r.Then
	}
	return r.Else
}

// Wrote reports whether a response shows a change.
func (r Request) Wrote(response Response) bool {
	for i, act := range r.Branch(response.Succeeded) {
		if act.Verb == Write || act.Verb == Remove && i < len(response.Results) && response.Results[i].Deleted > 0 {
			return true
		}
	}
	return false
}

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
