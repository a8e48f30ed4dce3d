package health

import (
	"cmp"
	"slices"
	"sync"
)

// Table holds what is known of endpoints. Clients that share a table share what they know:
// one of them probes an endpoint for all. Its methods, and those of its entries, may be
// called from any goroutine.
type Table struct {
	mu      sync.Mutex
	entries map[string]*Entry
}

// NewTable returns an empty table. It holds no goroutine and needs no closing.
func NewTable() *Table { return &Table{entries: make(map[string]*Entry)} }

// Acquire returns the entry with that key, and makes one for the endpoint if there is
// none. Whoever acquired it releases it; the last to do so removes it from the table. The
// key tells apart what must not share an opinion, such as connections of different
// security to one address; "" stands for the endpoint's name.
func (t *Table) Acquire(key, endpoint string) *Entry {
	if key == "" {
		key = endpoint
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[key]
	if e == nil {
		e = newEntry(t, key, endpoint)
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
