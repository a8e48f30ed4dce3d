package health

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is one endpoint in a [Table].
type Entry struct {
	table    *Table
	endpoint string
	users    int // guarded by table.mu
	gone     atomic.Bool

	mu  sync.Mutex // held by writers of now
	now atomic.Pointer[moment]
}

// moment is an Entry's content. It is replaced as a whole and never changed.
type moment struct {
	status Status
	record Record
}

func newEntry(t *Table, endpoint string) *Entry {
	e := &Entry{table: t, endpoint: endpoint}
	e.now.Store(&moment{status: Status{Endpoint: endpoint}})
	return e
}

// Release ends one use of the entry that [Table.Acquire] began. The last one removes it
// from the table: evidence that is noted afterwards changes the entry, and nobody is told.
func (e *Entry) Release() { e.table.release(e) }

// Load returns what is known now. It takes no lock and does not allocate. The result is
// never nil and never changes.
func (e *Entry) Load() *Status { return &e.now.Load().status }

// Note takes a piece of evidence into account, by [Record.Next], and returns the change of
// state that followed; one whose From and To are equal if none did. An error in the
// evidence becomes the LastErr.
//
// Evidence that changes nothing, as an answer of an endpoint that serves, costs a load and
// a comparison, and no lock.
func (e *Entry) Note(ev Evidence) Change {
	state := e.now.Load().record.State
	if state == Serving && ev.Kind == Answered && ev.Err == nil {
		return Change{Endpoint: e.endpoint, From: state, To: state, Evidence: ev}
	}
	from, to := e.apply(ev)
	if from != to {
		e.table.feed.deliver()
	}
	if !e.gone.Load() && improves(from, to, ev.Kind) {
		e.table.bells.ring()
	}
	return Change{Endpoint: e.endpoint, From: from, To: to, Evidence: ev}
}

// apply changes the entry, and puts the change in line for the subscribers while no other
// change of this entry can overtake it.
func (e *Entry) apply(ev Evidence) (from, to State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.now.Load()
	next := old.record.Next(ev)
	from, to = old.record.State, next.State
	if next.same(old.record) && ev.Err == nil {
		return from, to
	}
	m := *old
	m.record = next
	m.status.State, m.status.Since, m.status.Evidence = next.State, next.Since, next.Evidence
	if ev.Err != nil {
		m.status.LastErr, m.status.LastErrAt = ev.Err, ev.At
	}
	e.now.Store(&m)
	if from != to && !e.gone.Load() {
		e.table.feed.add(Change{Endpoint: e.endpoint, From: from, To: to, Evidence: ev})
	}
	return from, to
}

// Learned notes what the endpoint said of itself, which by itself changes no state. What
// is older than what is known already is ignored, except that a term is never forgotten.
func (e *Entry) Learned(role Role, at time.Time) {
	e.table.learnTerm(role.Term)
	role.Alarms = slices.Clone(role.Alarms)
	e.mu.Lock()
	m := *e.now.Load()
	if at.Before(m.status.RoleAt) {
		e.mu.Unlock()
		return
	}
	known := m.status.Role.Leader
	m.status.Role, m.status.RoleAt = role, at
	e.now.Store(&m)
	e.mu.Unlock()
	if role.Leader != 0 && role.Leader != known && !e.gone.Load() {
		e.table.bells.ring()
	}
}

// Failed notes an error that the endpoint gave or caused, which by itself changes no
// state. A nil error is ignored.
func (e *Entry) Failed(err error, at time.Time) {
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := *e.now.Load()
	m.status.LastErr, m.status.LastErrAt = err, at
	e.now.Store(&m)
}
