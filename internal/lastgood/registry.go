package lastgood

import (
	"sync"
	"time"
)

// MaxIdle is the maximum number of sources without a channel that a Registry remembers. Beyond it,
// the one that was stopped first is forgotten.
const MaxIdle = 1000

// Source resolves one target for all channels.
type Source[L any] interface {
	// Stop ends the source without blocking. It returns the state for the next source, and false
	// if there is none worth keeping.
	Stop() (last L, ok bool)
}

// Registry has one running source for each key in use. It keeps the state of a source for maxAge
// after its last channel closed or went idle, and starts the next one with it.
type Registry[K comparable, S Source[L], L any] struct {
	start  func(key K, last L, ok bool) S
	maxAge time.Duration

	mu      sync.Mutex
	running map[K]*running[S]
	idle    map[K]stopped[L]
}

type running[S any] struct {
	source S
	users  int
}

type stopped[L any] struct {
	last L
	at   time.Time
}

// NewRegistry returns a Registry. start receives the state of the last source of the key if ok is
// true; it must not block. No state is kept unless maxAge is positive.
func NewRegistry[K comparable, S Source[L], L any](maxAge time.Duration, start func(key K, last L, ok bool) S) *Registry[K, S, L] {
	return &Registry[K, S, L]{start: start, maxAge: maxAge, running: map[K]*running[S]{}, idle: map[K]stopped[L]{}}
}

// Acquire returns the source of a key, and starts it if necessary. Each call requires a Release.
func (r *Registry[K, S, L]) Acquire(key K) S {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeExpiredLocked()
	s := r.running[key]
	if s == nil {
		known, ok := r.idle[key]
		s = &running[S]{source: r.start(key, known.last, ok)}
		r.running[key] = s
		delete(r.idle, key)
	}
	s.users++
	return s.source
}

// Release stops the source of a key if it has no other users.
func (r *Registry[K, S, L]) Release(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.running[key]
	if s.users--; s.users > 0 {
		return
	}
	delete(r.running, key)
	if last, ok := s.source.Stop(); ok && r.maxAge > 0 {
		r.idle[key] = stopped[L]{last, time.Now()}
	}
	r.removeExpiredLocked()
}

// removeExpiredLocked forgets expired states, and the oldest beyond MaxIdle.
func (r *Registry[K, S, L]) removeExpiredLocked() {
	var oldest K
	first := time.Now()
	for key, s := range r.idle {
		switch {
		case time.Since(s.at) >= r.maxAge:
			delete(r.idle, key)
		case s.at.Before(first):
			oldest, first = key, s.at
		}
	}
	if len(r.idle) > MaxIdle {
		delete(r.idle, oldest)
	}
}
