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
