package watchcheck

import (
	"fmt"
	"slices"
	"sort"

	"github.com/quorate/quorate/lab/robustness/history"
)

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
	// whose outcome is unknown.
	Compactions []int64
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

// compactedBeyond reports whether history may have been compacted to a revision
// at or above the given one.
func (r *indexed) compactedBeyond(revision int64) bool {
	return slices.ContainsFunc(r.Compactions, func(c int64) bool { return c >= revision })
}
