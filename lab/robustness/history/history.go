// Package history says what the lab saw: of a call how it ended ([Outcome]); of one watch what its reader took from the channel
// ([Watch]); and which revisions the store can have had at a moment ([Clock]).
//
// These are the only things that those who make a load, those who check it and
// those who measure it share. All times are offsets from the beginning of the run,
// on the monotonic clock.
package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/quorate/quorate/retry"
)

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

// What an event did to its key.
const (
	// PutEvent wrote the key.
	PutEvent = mvccpb.Event_PUT
	// DeleteEvent deleted it, by a delete, a txn or the end of a lease.
	DeleteEvent = mvccpb.Event_DELETE
)

// KeyValue is a key at one revision, as etcd returns it.
type KeyValue struct {
	Key, Value string
	// CreateRevision is the revision that created the key, ModRevision that of its
	// last write, and Version counts the writes since its creation. For a delete only
	// ModRevision is set, to the revision of the delete.
	CreateRevision, ModRevision, Version int64
	// Lease that the key is attached to, 0 for none.
	Lease int64
}

// Event is one change of one key.
type Event struct {
	// Type of the change.
	Type mvccpb.Event_EventType
	// KeyValue is the key after the change.
	KeyValue
	// Prev is the key before the change, nil if it was not delivered.
	Prev *KeyValue
}

// IsCreate reports whether the event says that it created its key.
func (e Event) IsCreate() bool { return e.Type == PutEvent && e.CreateRevision == e.ModRevision }

// String returns the event in a few words: "put /a at revision 12".
func (e Event) String() string {
	return fmt.Sprintf("%s %s at revision %d", strings.ToLower(e.Type.String()), e.Key, e.ModRevision)
}

// WatchRequest is the request of a reader.
type WatchRequest struct {
	// Key and RangeEnd name the keys as they do on the wire: an empty RangeEnd
	// means the key alone, "\x00" every key from Key on.
	Key, RangeEnd string `json:",omitzero"`
	// StartRevision is the first revision wanted, 0 for what comes after the call.
	StartRevision int64 `json:",omitzero"`
	// PrevKV, ProgressNotify, CreatedNotify and Fragment are the options of these
	// names.
	PrevKV, ProgressNotify, CreatedNotify, Fragment bool `json:",omitzero"`
	// NoPut and NoDelete filter out the events of a type.
	NoPut, NoDelete bool `json:",omitzero"`
	// RequireLeader says that the watch must end, and not wait, when its
	// member has no leader.
	RequireLeader bool `json:",omitzero"`
}

// covers reports whether a key is among those watched.
func (r WatchRequest) covers(key string) bool {
	switch r.RangeEnd {
	case "":
		return key == r.Key
	case "\x00":
		return key >= r.Key
	default:
		return key >= r.Key && key < r.RangeEnd
	}
}

// Matches reports whether an event is among those wanted, whatever its revision.
func (r WatchRequest) Matches(e Event) bool {
	if e.Type == PutEvent && r.NoPut || e.Type == DeleteEvent && r.NoDelete {
		return false
	}
	return r.covers(e.Key)
}

// Last returns the revision of the last of some events that the watch must deliver if it starts at a revision, 0 if there is none.
func (r WatchRequest) Last(events []Event, start int64) int64 {
	for _, e := range slices.Backward(events) {
		if e.ModRevision >= start && r.Matches(e) {
			return e.ModRevision
		}
	}
	return 0
}

// String returns the request as JSON, without what is not set.
func (r WatchRequest) String() string {
	text, _ := json.Marshal(r) // it cannot fail
	return string(text)
}

// WatchResponse is one response as the reader took it from its channel.
type WatchResponse struct {
	// At is when the reader took it.
	At time.Duration
	// Revision is that of the response header.
	Revision int64
	// Events in the order in which they were delivered.
	Events []Event
	// Created marks the answer to CreatedNotify.
	Created bool
	// Canceled marks the last response of a watch that failed.
	Canceled bool
	// CompactRevision is the oldest revision left, in the last response of a watch
	// that needed an older one.
	CompactRevision int64
	// Err is the reason for the end, from the client; nil in every response but the
	// last.
	Err error
}

// IsProgress reports whether the response is a progress notification: it says only that
// every event up to its Revision has been delivered.
func (r WatchResponse) IsProgress() bool {
	return len(r.Events) == 0 && !r.Created && !r.IsTerminal() && r.Revision != 0
}

// IsTerminal reports whether the response says that the watch has failed.
func (r WatchResponse) IsTerminal() bool {
	return r.Canceled || r.CompactRevision != 0 || r.Err != nil
}

// Ending says how a watch ended.
type Ending uint8

const (
	// StillOpen means that the watch was open, and being read, when the run ended.
	StillOpen Ending = iota
	// LeftByReader means that the reader ended the watch's context, or closed the
	// client, before the channel was closed.
	LeftByReader
	// EndedByItself means that the channel was closed although its reader's context
	// had not ended.
	EndedByItself
)

// Watch is one watch as its reader saw it, from the call to the end of its
// channel. It is one watch, however often the client reconnects meanwhile.
type Watch struct {
	// ID numbers the watches of a run.
	ID int
	// Request that the reader made.
	Request WatchRequest
	// Returned is when the call of Watch returned.
	Returned time.Duration
	// StartedBy is a revision that was certainly written after Watch had returned,
	// 0 if none is known. A watch without a StartRevision must deliver every event from it
	// on; if none is known, every event after its own first response.
	StartedBy int64
	// ProgressRequested says that RequestProgress may have been called for the
	// stream of this watch, so that progress notifications come although it did not ask for them.
	ProgressRequested bool
	// Responses in the order in which the reader took them.
	Responses []WatchResponse
	// End says how it ended, and Ended when; for an open watch, when reading
	// stopped.
	End   Ending
	Ended time.Duration
}

// String returns the watch in a few words.
func (w Watch) String() string { return fmt.Sprintf("watch %d of %s", w.ID, w.Request) }

// Err returns what the client gave as the reason for the end, nil if there was none.
func (w Watch) Err() error {
	if n := len(w.Responses); n > 0 {
		return w.Responses[n-1].Err
	}
	return nil
}

// Answer is a revision that the store had at some moment from Sent to Returned.
type Answer struct {
	Sent, Returned time.Duration
	Revision       int64
	// Call is the number of the call that was answered.
	Call int
}

// Clock bounds the revision that the store had at a moment. Revisions only grow, and nothing else is taken from clocks.
type Clock struct {
	// sent has the answers in the order of their calls, each with the lowest revision of itself and all later ones. returned
	// has them in the order of their returns, each with the highest revision of itself and all earlier ones.
	sent, returned []Answer
}

// NewClock returns the clock of some answers.
func NewClock(answers []Answer) *Clock {
	c := &Clock{sent: slices.Clone(answers), returned: slices.Clone(answers)}
	slices.SortStableFunc(c.sent, func(a, b Answer) int { return cmp.Compare(a.Sent, b.Sent) })
	for i := len(c.sent) - 2; i >= 0; i-- {
		if next := c.sent[i+1]; next.Revision < c.sent[i].Revision {
			c.sent[i].Revision, c.sent[i].Call = next.Revision, next.Call
		}
	}
	slices.SortStableFunc(c.returned, func(a, b Answer) int { return cmp.Compare(a.Returned, b.Returned) })
	for i := 1; i < len(c.returned); i++ {
		if last := c.returned[i-1]; last.Revision >= c.returned[i].Revision {
			c.returned[i].Revision, c.returned[i].Call = last.Revision, last.Call
		}
	}
	return c
}

// AtLeast returns the highest revision that had been answered before a moment, and to which call; ok is false if none had.
func (c *Clock) AtLeast(at time.Duration) (revision int64, call int, ok bool) {
	n, _ := slices.BinarySearchFunc(c.returned, at, func(a Answer, at time.Duration) int { return cmp.Compare(a.Returned, at) })
	if n == 0 {
		return 0, 0, false
	}
	return c.returned[n-1].Revision, c.returned[n-1].Call, true
}

// AtMost returns the lowest revision that was answered to a call made at a moment or later; ok is false if there was none.
func (c *Clock) AtMost(at time.Duration) (revision int64, ok bool) {
	n, _ := slices.BinarySearchFunc(c.sent, at, func(a Answer, at time.Duration) int { return cmp.Compare(a.Sent, at) })
	if n == len(c.sent) {
		return 0, false
	}
	return c.sent[n].Revision, true
}
