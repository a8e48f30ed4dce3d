// Package watchcheck checks what readers of watches saw against the history of the
// store.
//
// It compares with a [Reference]: every event of the keys in question, from
// revision 1 on. [Check] replays each [history.Watch] beside it and asks one small
// function for each [Promise]: the nine that etcd's robustness tests make of a
// watch (ordered, unique, atomic, reliable, resumable, bookmarkable, prev_kv,
// is_create, filter), and those that a client adds for its own part of the way:
// events are genuine, a watch ends once and for a reason, and nothing is delivered
// that was not requested.
//
// A fault counts for one promise where it breaks only one: a repeated event is
// not also out of order, a lost one is not also a wrong bookmark. What a
// violation says can therefore be read literally.
package watchcheck

import "github.com/quorate/quorate/lab/robustness/history"

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

// Check checks watches. The error says that the reference contradicts itself, so
// that nothing can be checked: an event is missing in it, is there twice, or is in
// the wrong place.
func Check(reference Reference, watches []history.Watch) (Verdict, error) {
	ref, err := index(reference)
	if err != nil {
		return Verdict{}, err
	}
	var verdict Verdict
	for i := range watches {
		t := follow(ref, &watches[i], &verdict)
		verdict.count(&watches[i])
		for _, validate := range validators {
			validate(t)
		}
	}
	return verdict, nil
}

// validators holds a function for each promise, in the order in which violations
// are listed.
var validators = []func(*trace){
	filter, genuine, unique, ordered, atomic, bookmarkable, resumable, reliable,
	prevKV, isCreate, terminal, compacted, created, asked,
}
