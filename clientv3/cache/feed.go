package cache

import "sync"

// feed holds the keys of a view that have changed and that an informer has not taken yet: one entry for each key,
// however often it changes.
type feed struct {
	wake chan struct{} // holds a value when there is something to fetch

	mu     sync.Mutex
	all    bool // anything may have changed
	resync *Resynced
	keys   map[string]struct{}
	order  []string
}

func newFeed() *feed {
	return &feed{wake: make(chan struct{}, 1), all: true, keys: map[string]struct{}{}}
}

func (f *feed) note(ch change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ch.resync != nil {
		f.resync = ch.resync
		f.all = true
	}
	if f.all {
		clear(f.keys)
		f.order = nil
	} else {
		for _, key := range ch.keys {
			if _, ok := f.keys[key]; !ok {
				f.keys[key] = struct{}{}
				f.order = append(f.order, key)
			}
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns what has changed since the last time: anything, or some keys in the order in which they
// changed first.
func (f *feed) take() (all bool, resync *Resynced, keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, resync, keys = f.all, f.resync, f.order
	f.all, f.resync, f.order = false, nil, nil
	clear(f.keys)
	return all, resync, keys
}

func (v *view) subscribe(f *feed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.feeds[f] = struct{}{}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (v *view) unsubscribe(f *feed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.feeds, f)
}
