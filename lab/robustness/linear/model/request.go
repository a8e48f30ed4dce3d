// Package model says what a few keys of an etcd store may answer, and checks that
// what clients were answered is linearizable.
//
// A [History] has everything that was asked of one group of keys, with when it was
// asked, when it ended and how. [Check] looks for one order of all of it that
// explains every answer: each operation takes effect at one moment between its call
// and its return, and the answers are those of a store that executes one operation
// after the other. Values, versions, create and mod revisions and the revisions of
// response headers all belong to an answer.
//
// How an operation ended decides what it may have done:
//
//   - [Answered]: it took effect once, at the revision of its answer.
//   - [Failed]: it took no effect. When what it would have written is seen, the
//     history is not linearizable.
//   - [Unknown]: it took effect once, at any moment after its call, be it long after
//     its end, or it never did.
package model

// Keys is the number of keys of a group. Transactions span them, so a group is what
// is checked as a whole; groups have nothing to do with each other.
const Keys = 3

// Kind is what a client calls an operation.
type Kind uint8

// The kinds of operations.
const (
	// Get reads one key.
	Get Kind = iota
	// SerializableGet reads one key as it was at some earlier moment. Its answer
	// must be that of the store at the revision of its header.
	SerializableGet
	// Snapshot reads keys in a transaction.
	Snapshot
	// Put writes one key.
	Put
	// Delete deletes one key.
	Delete
	// Txn is a transaction that may write.
	Txn
	// NumKinds is the number of kinds.
	NumKinds
)

var kindNames = [NumKinds]string{
	Get: "get", SerializableGet: "serializable get", Snapshot: "snapshot", Put: "put", Delete: "delete", Txn: "txn",
}

// String returns the name of the kind, such as "serializable get".
func (k Kind) String() string {
	if k >= NumKinds {
		return "unknown kind"
	}
	return kindNames[k]
}

// Writes reports whether operations of the kind may change the store.
func (k Kind) Writes() bool { return k == Put || k == Delete || k == Txn }

// Request is one operation, as a transaction: a plain get, put or delete has no
// comparisons and one act.
type Request struct {
	// Kind by which it is counted.
	Kind Kind
	// Shared says that the operation may have travelled with others in one RPC. Writes that did
	// have one revision, and no key in common.
	Shared bool
	// Cached says that the operation is a get that may be answered from a cache.
	Cached bool
	// If holds when all its comparisons do; without any it does.
	If []Compare
	// Then is done if If holds, Else if it does not. An act must not write a key
	// that another act of the branch writes; etcd refuses that.
	Then, Else []Act
}

// Verb is what is done to a key.
type Verb uint8

// The verbs.
const (
	// Read returns the key.
	Read Verb = iota
	// Write puts a value.
	Write
	// Remove deletes the key.
	Remove
)

// Act is one thing that is done to one key.
type Act struct {
	Verb Verb
	// Key is its number in the group, from 0 to [Keys]-1.
	Key int
	// Value that is put. No two acts of a history may put the same one.
	Value string
	// Prev asks a Write or Remove to return what was there before.
	Prev bool
	// Orphan puts the value under a lease that does not exist. The store refuses to
	// do any act of a branch that has such a one.
	Orphan bool
}

// Target is what a comparison looks at.
type Target uint8

// The targets.
const (
	// Value compares the value; of an absent key no such comparison holds.
	Value Target = iota
	// Version compares the version, 0 for an absent key.
	Version
	// CreateRevision compares the revision at which the key was created, 0 for an
	// absent key.
	CreateRevision
	// ModRevision compares the revision at which the key was written last, 0 for an
	// absent key.
	ModRevision
)

// Compare is one comparison of a transaction.
type Compare struct {
	// Key is its number in the group.
	Key    int
	Target Target
	// NotEqual makes it hold when what is compared differs.
	NotEqual bool
	// Value to compare with if that is the target, and Number if it is another.
	Value  string
	Number int64
}

// KV is a key as a server shows it; the zero KV is an absent one.
type KV struct {
	Value                                string
	CreateRevision, ModRevision, Version int64
}

// Result is the result of an act.
type Result struct {
	// KV is what was read, or for an act with Prev what was there before.
	KV KV
	// Deleted is how many keys a Remove deleted.
	Deleted int64
}

// Response is the answer to a Request.
type Response struct {
	// Revision of the header.
	Revision int64
	// Succeeded reports whether the branch Then was taken. A request without
	// comparisons always succeeds.
	Succeeded bool
	// Results of the acts of the branch, in their order.
	Results []Result
}

// branch returns the acts of a branch.
func (r Request) branch(succeeded bool) []Act {
	if succeeded {
		return r.Then
	}
	return r.Else
}

// Wrote reports whether a response tells of a change.
func (r Request) Wrote(response Response) bool {
	for i, act := range r.branch(response.Succeeded) {
		if act.Verb == Write || act.Verb == Remove && i < len(response.Results) && response.Results[i].Deleted > 0 {
			return true
		}
	}
	return false
}
