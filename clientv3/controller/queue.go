package controller

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// queue holds the keys that are to be reconciled. A key is in it once, however often it is added, and is not handed out
// while it is being reconciled: added meanwhile, it comes again when that is done.
type queue struct {
	backoff retry.Policy
	every   time.Duration // between retries of all keys, in the long run
	wake    chan struct{} // holds a value when there may be a key for a worker

	mu         sync.Mutex
	order      []string
	dirty      map[string]struct{}    // to be reconciled: in order, or again when it is done
	processing map[string]struct{}    // being reconciled
	waiting    map[string]*time.Timer // to be added later
	failures   map[string]int         // in a row
	slot       time.Time              // when the next retry may be, if it is not in the past
	closed     bool
}

func newQueue(backoff retry.Policy, retriesPerSecond int) *queue {
	return &queue{
		backoff: backoff, every: time.Second / time.Duration(retriesPerSecond), wake: make(chan struct{}, 1),
		dirty: make(map[string]struct{}), processing: make(map[string]struct{}),
		waiting: make(map[string]*time.Timer), failures: make(map[string]int),
	}
}

// add makes a key be reconciled soon, even if it waits for its retry.
func (q *queue) add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key)
}

func (q *queue) addLocked(key string) {
	if timer, ok := q.waiting[key]; ok {
		if timer.Stop() && q.failures[key] > 0 {
			q.slot = q.slot.Add(-q.every) // its retry is not used
		}
		delete(q.waiting, key)
	}
	if _, ok := q.dirty[key]; ok || q.closed {
		return
	}
	q.dirty[key] = struct{}{}
	if _, ok := q.processing[key]; ok {
		return
	}
	q.order = append(q.order, key)
	pause.Signal(q.wake)
}

// addAfterLocked has a key reconciled after a time, or when it is added before.
func (q *queue) addAfterLocked(key string, after time.Duration) {
	if _, ok := q.dirty[key]; ok || q.closed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.waiting[key] == timer {
			q.addLocked(key)
		}
	})
	q.waiting[key] = timer
}

// get waits for a key. It returns false when ctx has ended.
func (q *queue) get(ctx context.Context) (key string, ok bool) {
	for {
		if key, ok := q.take(); ok && ctx.Err() == nil {
			return key, true
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return "", false
		}
	}
}

func (q *queue) take() (key string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return "", false
	}
	key = q.order[0]
	q.order = q.order[1:]
	delete(q.dirty, key)
	q.processing[key] = struct{}{}
	if len(q.order) > 0 {
		pause.Signal(q.wake) // the next worker
	}
	return key, true
}

// done ends the reconciliation of a key. If failed is set, the key comes again after a backoff; otherwise it comes again after
// a time, if that is not 0.
func (q *queue) done(key string, failed bool, after time.Duration) (failures int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.processing, key)
	_, dirty := q.dirty[key]
	if failed {
		q.failures[key]++
		failures = q.failures[key]
	} else {
		delete(q.failures, key)
	}
	switch {
	case dirty && !q.closed:
		q.order = append(q.order, key)
		pause.Signal(q.wake)
	case failed:
		q.addAfterLocked(key, max(q.backoff.Delay(failures), q.reserveLocked()))
	case after > 0:
		q.addAfterLocked(key, after)
	}
	return failures
}

// burst is how many retries may follow each other at once.
const burst = 100

// reserveLocked returns how long the next retry has to wait, so that those of all keys together stay within their rate.
func (q *queue) reserveLocked() time.Duration {
	now := time.Now()
	if idle := now.Add(-burst * q.every); q.slot.Before(idle) {
		q.slot = idle
	}
	q.slot = q.slot.Add(q.every)
	return max(q.slot.Sub(now), 0)
}

// close forgets all keys.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, timer := range q.waiting {
		timer.Stop()
	}
	clear(q.waiting)
	q.order = nil
}
