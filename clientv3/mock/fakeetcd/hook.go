package fakeetcd

import (
	"slices"
	"strings"
)

// Hook is a registered function that handles calls, see Cluster.On, Once and Nth.
type Hook struct {
	cluster *Cluster
	method  string
	f       func(*Call)

	// The rest is guarded by Cluster.mu.
	skip   int // matching calls to skip first
	single bool
	ran    int
}

// On makes f handle every further call of a method. The method is a full name such
// as "/etcdserverpb.KV/Put", its last part "Put", or "*" for all.
//
// One hook handles a call: the oldest Once or Nth that is due, or else the newest
// On.
func (c *Cluster) On(method string, f func(*Call)) *Hook {
	return c.add(&Hook{cluster: c, method: method, f: f})
}

// Once makes f handle the next call of a method. A second Once handles the call
// after that, and so on. See On for the method.
func (c *Cluster) Once(method string, f func(*Call)) *Hook {
	return c.add(&Hook{cluster: c, method: method, f: f, single: true})
}

// Nth makes f handle the n-th further call of a method, counted from 1; less means
// 1. See On for the method.
func (c *Cluster) Nth(method string, n int, f func(*Call)) *Hook {
	return c.add(&Hook{cluster: c, method: method, f: f, single: true, skip: n - 1})
}

// Remove removes the hook. It still handles the calls that it already has.
func (h *Hook) Remove() {
	h.cluster.mu.Lock()
	defer h.cluster.mu.Unlock()
	h.cluster.removeLocked(h)
}

// Ran returns how many calls the hook has handled. If it is 0 at the end of a test,
// the hook was never reached.
func (h *Hook) Ran() int { return locked(h.cluster, func() int { return h.ran }) }

func (c *Cluster) add(h *Hook) *Hook {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, h)
	return h
}

func (c *Cluster) removeLocked(h *Hook) {
	c.hooks = slices.DeleteFunc(c.hooks, func(other *Hook) bool { return other == h })
}

// takeLocked returns the hook for a call of the method, nil if there is none.
func (c *Cluster) takeLocked(method string) *Hook {
	var chosen *Hook
	for _, h := range c.hooks {
		switch {
		case !matches(h.method, method):
		case h.skip > 0:
			h.skip--
		case chosen == nil || !chosen.single:
			chosen = h
		}
	}
	if chosen == nil {
		return nil
	}
	chosen.ran++
	if chosen.single {
		c.removeLocked(chosen)
	}
	return chosen
}

// matches reports whether a pattern, as On takes it, means a full method name.
func matches(pattern, method string) bool {
	return pattern == "*" || pattern == method || pattern == method[strings.LastIndexByte(method, '/')+1:]
}
