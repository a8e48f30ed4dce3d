package watchcheck

import (
	"fmt"
	"time"

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

const (
	// maxEvidence bounds the responses kept for one violation.
	maxEvidence = 4
	// maxShown bounds the bytes of a value in a message.
	maxShown = 32
)

// Verdict is what a check found.
type Verdict struct {
	// Watches and Events count what was checked.
	Watches, Events int64
	tally.Verdict
}

// count counts what there is to evaluate of a watch.
func (v *Verdict) count(w *history.Watch) {
	v.Watches++
	for i := range w.Responses {
		v.Events += int64(len(w.Responses[i].Events))
	}
}

// add counts a violation and keeps it, with the numbered responses, if there are
// not too many of its kind.
func (v *Verdict) add(w *history.Watch, p Promise, message string, responses ...int) {
	violation := v.Add(p, "%v: %s", w, message)
	for _, n := range responses[:min(len(responses), maxEvidence)] {
		violation.Evidence = append(violation.Evidence, describe(n, w.Responses[n]))
	}
}

// describe says in one line what a response held.
func describe(n int, r history.WatchResponse) string {
	what := fmt.Sprintf("response %d at %s, header revision %d", n, at(r.At), r.Revision)
	switch {
	case r.Err != nil:
		return fmt.Sprintf("%s: last, compact revision %d: %v", what, r.CompactRevision, r.Err)
	case r.IsTerminal():
		return fmt.Sprintf("%s: last, compact revision %d, no error", what, r.CompactRevision)
	case r.Created:
		return what + ": created"
	case len(r.Events) == 0:
		return what + ": progress"
	default:
		return fmt.Sprintf("%s: %d events, revisions %d to %d",
			what, len(r.Events), r.Events[0].ModRevision, r.Events[len(r.Events)-1].ModRevision)
	}
}

func at(d time.Duration) string { return fmt.Sprintf("%.6fs", d.Seconds()) }

// content says what a key-value holds.
func content(kv history.KeyValue) string {
	value := kv.Value
	if len(value) > maxShown {
		value = value[:maxShown] + "…"
	}
	return fmt.Sprintf("%q of revision %d, version %d, created at %d, lease %x",
		value, kv.ModRevision, kv.Version, kv.CreateRevision, kv.Lease)
}
