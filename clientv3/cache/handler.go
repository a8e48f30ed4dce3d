package cache

import (
	"slices"
	"strings"
	"sync"

	"github.com/quorate/quorate/internal/pause"
)

// handler holds the pending changes for one function. Its goroutine calls the function.
type handler[T any] struct {
	in      *Informer[T]
	prefix  string
	f       func(Change[T])
	wake    chan struct{} // holds a value when there is a change
	removed chan struct{}
	ended   chan struct{}

	mu    sync.Mutex
	known map[string]*Object[T] // for each key in order, the object that the function received last; nil for none
	order []entry
}

// entry is a key, or an announcement.
type entry struct {
	key      string
	announce ChangeType // 0 for a key
}

// AddHandler passes the present objects to f, as Added, then Synced, and then changes. One goroutine makes all
// calls of f, one at a time, in the order in which keys changed first. remove ends them; a call that is under way
// may still run when it returns.
func (in *Informer[T]) AddHandler(f func(Change[T])) (remove func()) {
	return in.AddPrefixHandler("", f)
}

// AddPrefixHandler is AddHandler for the objects whose keys begin with a prefix.
func (in *Informer[T]) AddPrefixHandler(prefix string, f func(Change[T])) (remove func()) {
	h := &handler[T]{
		in: in, prefix: prefix, f: f, wake: make(chan struct{}, 1), removed: make(chan struct{}), ended: make(chan struct{}),
		known: make(map[string]*Object[T]),
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ctx.Err() != nil {
		return func() {}
	}
	go h.run() // Cache.Close does not wait for it
	in.handlers[h] = struct{}{}
	in.objects.AscendGreaterOrEqual(&Object[T]{Key: prefix}, func(o *Object[T]) bool {
		h.note(o.Key, nil)
		return strings.HasPrefix(o.Key, prefix)
	})
	if in.HasSynced() {
		h.announce(Synced)
	}
	return sync.OnceFunc(func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.handlers, h)
		close(h.removed)
	})
}

// note records a change of a key; was is the object before it.
func (h *handler[T]) note(key string, was *Object[T]) {
	if !strings.HasPrefix(key, h.prefix) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.known[key]; ok {
		h.in.merged.Add(1)
		return
	}
	h.known[key] = was
	h.order = append(h.order, entry{key: key})
	h.signal()
}

// announce puts Relisted before all pending changes, because changes of the relist may be merged into them, and Synced
// after them.
func (h *handler[T]) announce(t ChangeType) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case t == Synced:
		h.order = append(h.order, entry{announce: t})
	case len(h.order) == 0 || h.order[0].announce != t:
		h.order = slices.Insert(h.order, 0, entry{announce: t})
	}
	h.signal()
}

func (h *handler[T]) signal() { pause.Signal(h.wake) }

func (h *handler[T]) pending() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.order)
}

func (h *handler[T]) run() {
	defer close(h.ended)
	for {
		select {
		case <-h.wake:
		case <-h.removed:
			return
		case <-h.in.ctx.Done():
			return
		}
		for change, ok := h.next(); ok; change, ok = h.next() {
			if change.Type != 0 {
				h.in.delivered.Add(1)
				h.f(change)
			}
		}
	}
}

// next returns the next change, and false if there is none. The change has type 0 if the key is as the function
// knows it.
func (h *handler[T]) next() (Change[T], bool) {
	if pause.Closed(h.removed) || h.in.ctx.Err() != nil {
		return Change[T]{}, false
	}
	h.in.mu.RLock() // so that the objects do not change while the entry is taken
	defer h.in.mu.RUnlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return Change[T]{}, false
	}
	e := h.order[0]
	h.order = h.order[1:]
	if e.announce != 0 {
		return Change[T]{Type: e.announce}, true
	}
	old := h.known[e.key]
	delete(h.known, e.key)
	now, _ := h.in.objects.Get(&Object[T]{Key: e.key})
	change := Change[T]{Key: e.key, Old: old, New: now}
	switch {
	case old == now:
	case old == nil:
		change.Type = Added
	case now == nil:
		change.Type = Deleted
	default:
		change.Type = Updated
	}
	return change, true
}
