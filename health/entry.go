package health

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is what the users of one [Table] know together of an endpoint.
type Entry struct {
	table *Table
	key   string
	users int // guarded by table.mu

	mu  sync.Mutex // held by writers of now
	now atomic.Pointer[moment]

	feed feed

	alive       Stamp
	served      Stamp
	latency     atomic.Int64 // of what was served, smoothed, in nanoseconds
	latest      atomic.Int64 // of what was served last
	connections atomic.Int64
	probing     atomic.Bool
}

// moment is an Entry's content. It is replaced as a whole and never changed.
type moment struct {
	status Status
	record Record
}

func newEntry(t *Table, key, endpoint string) *Entry {
	e := &Entry{table: t, key: key}
	e.now.Store(&moment{status: Status{Endpoint: endpoint}})
	return e
}

// Release ends one use of the entry that [Table.Acquire] began. The last one removes it
// from the table.
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
	now := e.now.Load()
	if now.record.State == Serving && (ev.Kind == Answered || ev.Kind == Served) && ev.Err == nil {
		return Change{Endpoint: now.status.Endpoint, From: Serving, To: Serving, Evidence: ev}
	}
	c := e.apply(ev)
	if c.From != c.To {
		e.feed.deliver()
	}
	return c
}

// apply changes the entry, and queues the change for the subscribers while no other change
// of this entry can overtake it.
func (e *Entry) apply(ev Evidence) Change {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.now.Load()
	next := old.record.Next(ev)
	c := Change{Endpoint: old.status.Endpoint, From: old.record.State, To: next.State, Evidence: ev}
	if next.same(old.record) && ev.Err == nil {
		return c
	}
	m := *old
	m.record = next
	m.status.State, m.status.Since, m.status.Evidence = next.State, next.Since, next.Evidence
	if ev.Err != nil {
		m.status.LastErr, m.status.LastErrAt = ev.Err, ev.At
	}
	e.now.Store(&m)
	if c.From != c.To {
		e.feed.add(c)
	}
	return c
}

// SetInfo notes what the endpoint reported of itself, which by itself changes no state.
// What is older than what is known already is ignored.
func (e *Entry) SetInfo(info any, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := *e.now.Load()
	if at.Before(m.status.InfoAt) {
		return
	}
	m.status.Info, m.status.InfoAt = info, at
	e.now.Store(&m)
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

// Subscribe calls f with every change of state from now on, until cancel is called.
//
// The entry shows the change already when f is called. f is called by one goroutine at a
// time, in the order of the changes. It runs in the goroutine of whoever noted the
// evidence, so it must not block. It may note evidence of its own, which subscribers learn
// of once f has returned. A call of f that has begun may outlast cancel.
func (e *Entry) Subscribe(f func(Change)) (cancel func()) { return e.feed.subscribe(f) }

// Alive notes a sign of life at t.
func (e *Entry) Alive(t time.Time) { e.alive.Set(t) }

// AliveSince reports whether there was a sign of life at t or later.
func (e *Entry) AliveSince(t time.Time) bool { return e.alive.After(t) }

// Silence returns how long ago the latest sign of life was at t.
func (e *Entry) Silence(t time.Time) time.Duration { return e.alive.Since(t) }

// latencyWeight is the weight of a new sample in the smoothed latency: 1/10.
const latencyWeight = 10

// Completed notes work that began at start and was served at end.
func (e *Entry) Completed(start, end time.Time) {
	e.alive.Set(end)
	e.served.Set(start)
	took := max(int64(end.Sub(start)), 1)
	e.latest.Store(took)
	if old := e.latency.Load(); old != 0 {
		took = old + (took-old)/latencyWeight // a lost update is one sample less
	}
	e.latency.Store(took)
}

// CompletedSince reports whether work was served that began at t or later.
func (e *Entry) CompletedSince(t time.Time) bool { return e.served.After(t) }

// Latency returns how long the work takes that the endpoint serves, smoothed; 0 if it
// served none yet.
func (e *Entry) Latency() time.Duration { return time.Duration(e.latency.Load()) }

// Latest returns how long the work took that the endpoint served last; 0 if it served none
// yet.
func (e *Entry) Latest() time.Duration { return time.Duration(e.latest.Load()) }

// AddConnections counts the ready connections of all users of the table, by n.
func (e *Entry) AddConnections(n int) { e.connections.Add(int64(n)) }

// Connections returns how many ready connections to the endpoint there are.
func (e *Entry) Connections() int { return int(e.connections.Load()) }

// StartProbing reports whether the caller may probe the endpoint for its users: one does
// so at a time, until it calls StopProbing.
func (e *Entry) StartProbing() bool { return e.probing.CompareAndSwap(false, true) }

// StopProbing lets another user of the table probe the endpoint.
func (e *Entry) StopProbing() { e.probing.Store(false) }

// feed calls subscribers with changes, one at a time and in the order in which they were
// added. It has no goroutine: whoever added a change delivers what is queued, unless
// somebody does so already.
type feed struct {
	mu         sync.Mutex
	queue      []Change
	delivering bool
	subs       []*subscriber // replaced, never changed
}

type subscriber struct {
	f        func(Change)
	canceled atomic.Bool
}

func (f *feed) subscribe(call func(Change)) (cancel func()) {
	s := &subscriber{f: call}
	f.mu.Lock()
	f.subs = append(slices.Clone(f.subs), s)
	f.mu.Unlock()
	return func() {
		s.canceled.Store(true)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.subs = slices.DeleteFunc(slices.Clone(f.subs), func(o *subscriber) bool { return o == s })
	}
}

func (f *feed) add(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) > 0 {
		f.queue = append(f.queue, c)
	}
}

func (f *feed) deliver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.delivering {
		return
	}
	f.delivering = true
	for len(f.queue) > 0 {
		c, subs := f.queue[0], f.subs
		f.queue = f.queue[1:]
		f.mu.Unlock()
		for _, s := range subs {
			if !s.canceled.Load() {
				s.f(c)
			}
		}
		f.mu.Lock()
	}
	f.queue, f.delivering = nil, false
}
