package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

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
