package health

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Table holds what is known of the endpoints of one client. All of its connections share
// it, so that what one of them learns serves the others. Its methods, and those of its
// entries, may be called from any goroutine.
type Table struct {
	mu      sync.Mutex
	entries map[string]*Entry

	term  atomic.Uint64
	bells bells
	feed  feed
}

// NewTable returns an empty table. It holds no goroutine and needs no closing.
func NewTable() *Table {
	return &Table{entries: make(map[string]*Entry)}
}

// Acquire returns the entry of an endpoint, and makes one if there is none. Whoever
// acquired it releases it; the last to do so removes it from the table.
//
// An entry that is Draining is not given out again: an endpoint that comes back starts
// anew, Unknown, while those who still hold the old entry finish with it.
func (t *Table) Acquire(endpoint string) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[endpoint]
	if e == nil || e.Load().State == Draining {
		e = newEntry(t, endpoint)
		t.entries[endpoint] = e
	}
	e.users++
	return e
}

func (t *Table) release(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.users == 0 {
		return
	}
	e.users--
	if e.users > 0 {
		return
	}
	e.gone.Store(true)
	if t.entries[e.endpoint] == e {
		delete(t.entries, e.endpoint)
	}
}

// All returns what is known of each endpoint, sorted by endpoint.
func (t *Table) All() []Status {
	t.mu.Lock()
	all := make([]Status, 0, len(t.entries))
	for _, e := range t.entries {
		all = append(all, *e.Load())
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	return all
}

// Subscribe has f told of every change of state from now on, until cancel is called; f is
// not called any more once cancel has returned.
//
// The entry shows the change already when f is called. f is called by one goroutine at a
// time, and in the order in which the changes of each endpoint happened. It runs in the
// goroutine of whoever noted some evidence, and so must not block. It may use the table,
// and note evidence of its own, which subscribers learn of once f has returned; it must
// not call its own cancel, which would wait for it.
func (t *Table) Subscribe(f func(Change)) (cancel func()) { return t.feed.subscribe(f) }

// Improved returns a channel that is closed when some endpoint can do what it could not
// before: it serves again, it may be used for more than it was, it was connected to, or a
// member knows a leader that it did not know. Retries that wait for an endpoint wake up on
// it.
//
// Ask for the channel first and look for an endpoint then; the other way round an
// improvement in between is missed.
func (t *Table) Improved() <-chan struct{} { return t.bells.next() }

// Term returns the highest raft term that any endpoint ever named, 0 if none did.
func (t *Table) Term() uint64 { return t.term.Load() }

func (t *Table) learnTerm(term uint64) {
	for {
		known := t.term.Load()
		if term <= known || t.term.CompareAndSwap(known, term) {
			return
		}
	}
}
