package health

import (
	"cmp"
	"slices"
	"sync"
)

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
