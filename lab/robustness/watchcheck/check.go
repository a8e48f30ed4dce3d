// Package watchcheck checks what readers of watches saw against the history of the
// store.
//
// It compares with a [Reference]: every event of the keys in question, from revision 1 on.
// [Check] compares the responses of each [history.Watch] with it, and reports where one breaks
// a [Promise]: one of the nine that etcd's robustness tests make of a watch (ordered, unique,
// atomic, reliable, resumable, bookmarkable, prev_kv, is_create, filter), or one that a client
// adds for its own part of the way: events are genuine, a watch ends once and for a reason,
// and nothing is delivered that was not requested.
package watchcheck

import (
	"fmt"
	"sort"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
)

// Promise names what a watch promises its reader, as reports spell it.
type Promise = tally.Promise

// The promises of etcd.
const (
	// Ordered means that events come in the order of their revisions, and those of
	// one revision in the order in which the txn made them.
	Ordered Promise = "ordered"
	// Unique means that no event comes twice.
	Unique Promise = "unique"
	// Atomic means that the events of a revision come in one response.
	Atomic Promise = "atomic"
	// Reliable means that no event is left out: between the first and the last
	// revision that the watch is known to have reached, every one is there.
	Reliable Promise = "reliable"
	// Resumable means that a watch with a start revision begins with the first event
	// at or after it, so that a new watch can take over where another one broke.
	Resumable Promise = "resumable"
	// Bookmarkable means that a progress notification tells the truth: no event at
	// or below its revision comes after it, and it never goes back.
	Bookmarkable Promise = "bookmarkable"
	// PrevKV means that an event's previous key-value is the one that the event
	// replaced, is there when it was asked for and can be had, and not otherwise.
	PrevKV Promise = "prev_kv"
	// IsCreate means that an event says it created its key if and only if the key
	// did not exist before it.
	IsCreate Promise = "is_create"
	// Filter means that every event is of a key and a type that the reader asked
	// for.
	Filter Promise = "filter"
)

// The promises that a client adds.
const (
	// Genuine means that an event happened, just as it was delivered, and that
	// every response says something.
	Genuine Promise = "genuine"
	// Terminal means that a watch ends by itself with exactly one last response,
	// that the response has a reason which may end this watch, and that the channel
	// is closed after it.
	Terminal Promise = "terminal"
	// Compacted means that a watch ends for compaction only if a revision that it
	// had yet to deliver was compacted.
	Compacted Promise = "compacted"
	// Created means that the response which tells of the creation comes first and
	// once, if and only if it was asked for.
	Created Promise = "created"
	// Asked means that no progress notification comes without a request.
	Asked Promise = "asked"
)

// Verdict is what a check found.
type Verdict struct {
	// Watches and Events count what was checked.
	Watches, Events int64
	tally.Verdict
}

// Check checks watches. The error says that the reference contradicts itself, so
// that nothing can be checked: an event is missing in it, is there twice, or is in
// the wrong place.
func Check(reference Reference, watches []history.Watch) (Verdict, error) {
	ref, err := index(reference)
	if err != nil {
		return Verdict{}, err
	}
	verdict := Verdict{Watches: int64(len(watches))}
	for i := range watches {
		t := newTrace(ref, &watches[i], &verdict.Verdict)
		for n := range t.watch.Responses {
			verdict.Events += int64(len(t.watch.Responses[n].Events))
			t.take(n)
		}
		t.end()
	}
	return verdict, nil
}

// describe says in one line what a response held.
func describe(n int, r history.WatchResponse) string {
	what := fmt.Sprintf("response %d at %.6fs, header revision %d", n, r.At.Seconds(), r.Revision)
	switch {
	case r.IsTerminal():
		return fmt.Sprintf("%s: last, compact revision %d, error: %v", what, r.CompactRevision, r.Err)
	case r.Created:
		return what + ": created"
	case len(r.Events) == 0:
		return what + ": progress"
	default:
		return fmt.Sprintf("%s: %d events, revisions %d to %d",
			what, len(r.Events), r.Events[0].ModRevision, r.Events[len(r.Events)-1].ModRevision)
	}
}

// maxShown bounds the bytes of a value in a message.
const maxShown = 32

// content says what a key-value holds; nil stands for a key that does not exist.
func content(kv *history.KeyValue) string {
	if kv == nil {
		return "none"
	}
	value := kv.Value
	if len(value) > maxShown {
		value = value[:maxShown] + "…"
	}
	return fmt.Sprintf("%q of revision %d, version %d, created at %d, lease %x",
		value, kv.ModRevision, kv.Version, kv.CreateRevision, kv.Lease)
}

// Reference is what happened.
type Reference struct {
	// Events of all keys that are watched, complete from revision 1 to Through, in
	// the order of the store: by revision, and within a revision as the txn made
	// them. Prev is ignored.
	Events []history.Event
	// Through is the revision up to which Events is complete. No watch can have
	// seen more.
	Through int64
	// Settled is the revision that every watch which was open at the end must have
	// reached, because writers had stopped and it was given time. 0 asks for
	// nothing: what an open watch had yet to deliver is then not missed.
	Settled int64
	// Compactions are the revisions that the history was compacted to, with those
	// whose outcome is unknown, and when each was sent, by the clock of
	// [history.WatchResponse.At]. Nothing else of an Answer is set.
	Compactions []history.Answer
}

// eventID identifies an event: no txn changes a key twice.
type eventID struct {
	revision int64
	key      string
}

// indexed is a reference with its indexes.
type indexed struct {
	Reference
	// at finds an event of the reference.
	at map[eventID]int
	// previous has what each event replaced, nil if its key did not exist.
	previous []*history.KeyValue
}

// index makes a reference searchable, and replays it: the revisions and versions
// of a key tell whether one of its events is missing, unless the next one is a
// delete, which carries neither.
func index(r Reference) (*indexed, error) {
	ref := &indexed{Reference: r, at: make(map[eventID]int, len(r.Events)), previous: make([]*history.KeyValue, len(r.Events))}
	keys := map[string]*history.KeyValue{}
	for i := range r.Events {
		e := &r.Events[i]
		id := eventID{e.ModRevision, e.Key}
		if _, again := ref.at[id]; again {
			return nil, fmt.Errorf("the reference has %v twice", e)
		}
		if i > 0 && e.ModRevision < r.Events[i-1].ModRevision {
			return nil, fmt.Errorf("the reference is out of order: %v comes after %v", e, r.Events[i-1])
		}
		if e.ModRevision > r.Through {
			return nil, fmt.Errorf("the reference claims to end at revision %d and holds %v", r.Through, e)
		}
		if err := follows(e, keys[e.Key]); err != nil {
			return nil, err
		}
		ref.at[id], ref.previous[i] = i, keys[e.Key]
		keys[e.Key] = &e.KeyValue
		if e.Type == history.DeleteEvent {
			keys[e.Key] = nil
		}
	}
	if r.Settled > r.Through {
		return nil, fmt.Errorf("the reference ends at revision %d, below revision %d that every watch must have reached", r.Through, r.Settled)
	}
	return ref, nil
}

// follows checks that an event can follow the previous key-value, nil if the key did not
// exist.
func follows(e *history.Event, previous *history.KeyValue) error {
	want := history.KeyValue{CreateRevision: e.ModRevision, Version: 1}
	if previous != nil {
		want.CreateRevision, want.Version = previous.CreateRevision, previous.Version+1
	}
	switch {
	case e.Type == history.DeleteEvent && previous == nil:
		return fmt.Errorf("the reference lacks an event: %v, and the key did not exist", e)
	case e.Type == history.PutEvent && (e.CreateRevision != want.CreateRevision || e.Version != want.Version):
		return fmt.Errorf("the reference lacks an event: %v has version %d, created at revision %d; expected version %d, created at revision %d",
			e, e.Version, e.CreateRevision, want.Version, want.CreateRevision)
	default:
		return nil
	}
}

// from returns where the events at and after a revision begin.
func (r *indexed) from(revision int64) int {
	return sort.Search(len(r.Events), func(i int) bool { return r.Events[i].ModRevision >= revision })
}
