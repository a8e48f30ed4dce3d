package watchcheck

import (
	"fmt"
	"slices"
	"sort"

	"github.com/quorate/quorate/lab/robustness/history"
)

// none stands for no event of the reference.
const none = -1

// moment is what names an event: no txn changes a key twice.
type moment struct {
	revision int64
	key      string
}

// indexed is a reference that can be looked up.
type indexed struct {
	Reference
	// at finds an event of the reference.
	at map[moment]int
	// before holds, for each event, the one that changed the same key before it,
	// or none.
	before []int
}

// index makes a reference searchable, and replays it: the revisions and versions
// of a key tell whether one of its events is missing, unless the next one is a
// delete, which carries neither.
func index(r Reference) (*indexed, error) {
	ref := &indexed{Reference: r, at: make(map[moment]int, len(r.Events)), before: make([]int, len(r.Events))}
	newest := map[string]int{}
	for i, e := range r.Events {
		if i > 0 && e.ModRevision < r.Events[i-1].ModRevision {
			return nil, fmt.Errorf("the reference is out of order: %v comes after %v", e, r.Events[i-1])
		}
		if e.ModRevision > r.Through {
			return nil, fmt.Errorf("the reference claims to end at revision %d and holds %v", r.Through, e)
		}
		last, ok := newest[e.Key]
		if !ok {
			last = none
		}
		if err := ref.follows(e, last); err != nil {
			return nil, err
		}
		ref.before[i] = last
		newest[e.Key] = i
		ref.at[moment{e.ModRevision, e.Key}] = i
	}
	if r.Settled > r.Through {
		return nil, fmt.Errorf("the reference ends at revision %d, below revision %d that every watch must have reached",
			r.Through, r.Settled)
	}
	return ref, nil
}

// follows checks that an event can follow the one that changed its key before.
func (r *indexed) follows(e history.Event, last int) error {
	want := history.KeyValue{CreateRevision: e.ModRevision, Version: 1}
	if last != none {
		before := r.Events[last]
		if before.ModRevision == e.ModRevision {
			return fmt.Errorf("the reference has %v twice", e)
		}
		if before.Type == history.PutEvent {
			want.CreateRevision, want.Version = before.CreateRevision, before.Version+1
		}
	}
	if e.Type == history.DeleteEvent {
		if want.Version == 1 {
			return fmt.Errorf("the reference lacks an event: %v, and the key did not exist", e)
		}
		return nil
	}
	if e.CreateRevision != want.CreateRevision || e.Version != want.Version {
		return fmt.Errorf("the reference lacks an event: %v has version %d, created at revision %d; expected version %d, created at revision %d",
			e, e.Version, e.CreateRevision, want.Version, want.CreateRevision)
	}
	return nil
}

// find returns where an event stands in the reference, or none.
func (r *indexed) find(e *history.Event) int {
	if i, ok := r.at[moment{e.ModRevision, e.Key}]; ok {
		return i
	}
	return none
}

// previous returns what an event of the reference replaced, nil if its key did not
// exist.
func (r *indexed) previous(i int) *history.KeyValue {
	last := r.before[i]
	if last == none || r.Events[last].Type == history.DeleteEvent {
		return nil
	}
	return &r.Events[last].KeyValue
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
