package fakeetcd

import (
	"slices"
	"strings"
	"sync"
)

// Hook is a function that takes over calls, as registered with Cluster.On,
// Once or Nth.
type Hook struct {
	hooks  *hooks
	method string
	f      func(*Call)

	// The rest is guarded by hooks.mu.
	skip   int // matching calls to let pass first
	single bool
	ran    int
}

// hooks is the hooks of a cluster in the order of registration.
type hooks struct {
	mu   sync.Mutex
	list []*Hook
}

// On gives every call of a method to f, from now on. The method is a full name
// such as "/etcdserverpb.KV/Put", its last part "Put", or "*" for all.
//
// A call is given to one hook: the oldest of Once and Nth whose turn it is, or
// else the newest of On.
func (c *Cluster) On(method string, f func(*Call)) *Hook {
	return c.hooks.add(&Hook{method: method, f: f})
}

// Once gives the next call of a method to f. Registered again, it takes the
// call after that, and so on. See On for the method.
func (c *Cluster) Once(method string, f func(*Call)) *Hook {
	return c.hooks.add(&Hook{method: method, f: f, single: true})
}

// Nth gives the n-th call of a method from now on to f, counted from 1; less
// means 1. See On for the method.
func (c *Cluster) Nth(method string, n int, f func(*Call)) *Hook {
	return c.hooks.add(&Hook{method: method, f: f, single: true, skip: n - 1})
}

// Remove takes the hook away. Calls that it was given already stay with it.
func (h *Hook) Remove() {
	h.hooks.mu.Lock()
	defer h.hooks.mu.Unlock()
	h.hooks.removeLocked(h)
}

// Ran returns how many calls the hook was given. A test that ends with 0 here
// did not test what it meant to.
func (h *Hook) Ran() int {
	h.hooks.mu.Lock()
	defer h.hooks.mu.Unlock()
	return h.ran
}

func (hs *hooks) add(h *Hook) *Hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.hooks = hs
	hs.list = append(hs.list, h)
	return h
}

func (hs *hooks) removeLocked(h *Hook) {
	hs.list = slices.DeleteFunc(hs.list, func(other *Hook) bool { return other == h })
}

// take returns the hook for a call of the method, nil if there is none.
func (hs *hooks) take(method string) *Hook {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var chosen *Hook
	for _, h := range slices.Clone(hs.list) {
		switch {
		case !matches(h.method, method):
		case h.skip > 0:
			h.skip--
		case !h.single:
			if chosen == nil || !chosen.single {
				chosen = h
			}
		case chosen == nil || !chosen.single:
			chosen = h
		}
	}
	if chosen == nil {
		return nil
	}
	chosen.ran++
	if chosen.single {
		hs.removeLocked(chosen)
	}
	return chosen
}

// matches reports whether a pattern, as On takes it, means a full method name.
func matches(pattern, method string) bool {
	return pattern == "*" || pattern == method || pattern == method[strings.LastIndexByte(method, '/')+1:]
}
