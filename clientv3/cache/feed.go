package cache

import (
	"strings"

	"github.com/quorate/quorate/internal/pause"
)

// feed holds the keys of a prefix that have changed and that an informer has not taken yet: one entry for each key,
// however often it changes.
type feed struct {
	prefix string
	wake   chan struct{} // holds a value when there is something to take

	// Guarded by view.mu.
	changes
	known map[string]struct{} // the keys in changes
}

// changes are what an informer has yet to take.
type changes struct {
	all    bool // anything may have changed
	resync *Resynced
	keys   []string // in the order in which they changed first
}

func newFeed(prefix string) *feed {
	return &feed{prefix: prefix, wake: make(chan struct{}, 1), changes: changes{all: true}, known: map[string]struct{}{}}
}

// noteLocked adds a change. It does not wake the informer for keys outside of its prefix.
func (f *feed) noteLocked(ch change) {
	if ch.resync != nil {
		f.resync = ch.resync
		f.all = true
	}
	if f.all {
		clear(f.known)
		f.keys = nil
		f.signal()
		return
	}
	for _, key := range ch.keys {
		if _, ok := f.known[key]; !ok && strings.HasPrefix(key, f.prefix) {
			f.known[key] = struct{}{}
			f.keys = append(f.keys, key)
			f.signal()
		}
	}
}

func (f *feed) signal() { pause.Signal(f.wake) }

// take returns the snapshot and what has changed up to it since the last time. Without a snapshot it takes nothing.
func (v *view) take(f *feed) (*snapshot, changes) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.snap.Load()
	if s == nil {
		return nil, changes{}
	}
	taken := f.changes
	f.changes = changes{}
	clear(f.known)
	return s, taken
}

// subscribe passes changes to a feed.
func (v *view) subscribe(f *feed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.feeds[f] = struct{}{}
	f.signal()
}

func (v *view) unsubscribe(f *feed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.feeds, f)
}
