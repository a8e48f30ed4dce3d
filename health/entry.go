package health

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is the health of one endpoint, shared by the users of a [Table].
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
	asked       [purposes]Stamp
}

// moment is an Entry's content. It is replaced as a whole and never modified.
type moment struct {
	status Status
	record Record
}

// Release releases an entry returned by [Table.Acquire]. The last release removes it from
// the table.
func (e *Entry) Release() { e.table.release(e) }

// Load returns the current status. It takes no lock and does not allocate. The result is
// never nil and never changes.
func (e *Entry) Load() *Status { return &e.now.Load().status }

// Note applies a piece of evidence with [Record.Next] and returns the resulting change of
// state; From and To are equal if the state did not change. An error in the evidence
// becomes the LastErr.
//
// Evidence that changes nothing, such as Answered for a Serving endpoint, costs a load and
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

// apply changes the entry and queues the change for subscribers under the lock, which
// keeps the order.
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
	m.status.State, m.status.Since, m.status.Evidence, m.status.WritesFrom = next.State, next.Since, next.Evidence, next.WritesFrom
	if ev.Err != nil {
		m.status.LastErr, m.status.LastErrAt = ev.Err, ev.At
	}
	e.now.Store(&m)
	if c.From != c.To {
		e.feed.add(c)
	}
	return c
}

// SetInfo records the endpoint's report about itself. It changes no state. Reports older
// than the recorded one are ignored.
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

// Failed records an error returned or caused by the endpoint. It changes no state. A nil
// error is ignored.
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
// The entry is changed before f is called. f is called by one goroutine at a time, in the
// order of the changes. It runs in the goroutine that noted the evidence, so it must not
// block. f may note further evidence; subscribers receive that change after f has
// returned. A call of f may still be running when cancel returns.
func (e *Entry) Subscribe(f func(Change)) (cancel func()) { return e.feed.subscribe(f) }

// Alive records a sign of life at t.
func (e *Entry) Alive(t time.Time) { e.alive.Set(t) }

// AliveSince reports whether there was a sign of life at t or later.
func (e *Entry) AliveSince(t time.Time) bool { return e.alive.After(t) }

// Silence returns how long before t the latest sign of life was.
func (e *Entry) Silence(t time.Time) time.Duration { return e.alive.Since(t) }

// latencyWeight is the weight of a new sample in the smoothed latency: 1/10.
const latencyWeight = 10

// Completed records work that began at start and was served at end.
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

// Latency returns the smoothed latency of served work; 0 if there was none yet.
func (e *Entry) Latency() time.Duration { return time.Duration(e.latency.Load()) }

// Latest returns the latency of the work served last; 0 if there was none yet.
func (e *Entry) Latest() time.Duration { return time.Duration(e.latest.Load()) }

// AddConnections adds n to the number of ready connections of all users of the table.
func (e *Entry) AddConnections(n int) { e.connections.Add(int64(n)) }

// Connections returns the number of ready connections to the endpoint.
func (e *Entry) Connections() int { return int(e.connections.Load()) }

// StartProbing elects the caller to probe the endpoint for all users. It returns true for
// one user at a time, until that user calls StopProbing.
func (e *Entry) StartProbing() bool { return e.probing.CompareAndSwap(false, true) }

// StopProbing lets another user of the table probe the endpoint.
func (e *Entry) StopProbing() { e.probing.Store(false) }

// Purpose is the purpose of a probe whose answer counts for all users of a table.
type Purpose uint8

const (
	// ForProof is to learn whether an endpoint without evidence serves.
	ForProof Purpose = iota
	// ForLeader is to learn whether an endpoint that completes nothing knows a leader.
	ForLeader

	purposes = int(ForLeader) + 1
)

// Asked records that a user has asked the endpoint, for all users.
func (e *Entry) Asked(why Purpose, at time.Time) { e.asked[why].Set(at) }

// AskedSince reports whether a user asked for that purpose at t or later.
func (e *Entry) AskedSince(why Purpose, t time.Time) bool { return e.asked[why].After(t) }

// feed calls subscribers with changes, one at a time and in order. It has no goroutine: a
// caller that adds a change delivers the queue, unless another one is doing so.
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

// Table holds the health of endpoints. Clients that share a table share the health of its
// endpoints, and one of them probes an endpoint for all. The methods of a table and of its
// entries may be called concurrently.
type Table struct {
	mu      sync.Mutex
	entries map[string]*Entry
}

// NewTable returns an empty table. It has no goroutines and needs no Close.
func NewTable() *Table { return &Table{entries: make(map[string]*Entry)} }

// Acquire returns the entry with that key, creating it for the endpoint if needed. The
// caller must call [Entry.Release]; the last release removes the entry from the table.
// Use different keys for connections that must not share health, such as connections of
// different security to one address. "" means the endpoint's name.
func (t *Table) Acquire(key, endpoint string) *Entry {
	key = cmp.Or(key, endpoint)
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	if e == nil {
		e = &Entry{table: t, key: key}
		e.now.Store(&moment{status: Status{Endpoint: endpoint}})
		t.entries[key] = e
	}
	e.users++
	return e
}

func (t *Table) release(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(t.entries, e.key)
	}
}

// All returns the status of each endpoint, sorted by endpoint.
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
