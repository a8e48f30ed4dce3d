package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/clientv3/cache"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/retry"
)

// Defaults of a Config.
const (
	DefaultWorkers          = 1
	DefaultInitialBackoff   = 100 * time.Millisecond
	DefaultMaxBackoff       = time.Minute
	DefaultRetriesPerSecond = 10
)

// maxWorkers bounds Config.Workers: each is a goroutine.
const maxWorkers = 1 << 16

// Config says how [Run] reconciles. The zero value of every field is usable.
type Config[T any] struct {
	// Workers is how many keys are reconciled at a time. The default is 1, the most 65,536.
	Workers int
	// Prefix limits the controller to objects whose keys begin with it. The default is all objects of the informer.
	Prefix string
	// Keys returns the keys to reconcile after a change, none for a change that does not matter. They need not be keys of objects. The
	// default is the key of the object. It must be safe for concurrent use, and not block.
	Keys func(cache.Change[T]) []string
	// Resync is how often all objects are reconciled although nothing has changed; it varies by 10 %. Each is taken as Added. The
	// default, 0, is never.
	Resync time.Duration
	// InitialBackoff bounds the random time after which a failed key is reconciled again. The bound doubles with each consecutive failure, up to
	// MaxBackoff. The defaults are 100 ms and 1 min.
	InitialBackoff, MaxBackoff time.Duration
	// RetriesPerSecond bounds the retries of all keys together, after 100 at once. The default is 10.
	RetriesPerSecond int
	// OnError, if set, is called when a key has failed, with the number of failures in a row.
	OnError func(key string, failures int, err error)
}

// complete returns the configuration with its defaults. The error names what is wrong.
func (c Config[T]) complete() (Config[T], error) {
	for _, f := range []struct {
		name  string
		value any
		wrong bool
	}{
		{"Workers", c.Workers, c.Workers < 0 || c.Workers > maxWorkers},
		{"RetriesPerSecond", c.RetriesPerSecond, c.RetriesPerSecond < 0},
		{"Resync", c.Resync, c.Resync < 0},
		{"InitialBackoff", c.InitialBackoff, c.InitialBackoff < 0},
		{"MaxBackoff", c.MaxBackoff, c.MaxBackoff < 0},
	} {
		if f.wrong {
			return c, fmt.Errorf("controller: Config.%s is %v: leave it out for the default, or set a positive value (at most %d Workers)", f.name, f.value, maxWorkers)
		}
	}
	c.Workers = cmp.Or(c.Workers, DefaultWorkers)
	c.RetriesPerSecond = cmp.Or(c.RetriesPerSecond, DefaultRetriesPerSecond)
	c.InitialBackoff = cmp.Or(c.InitialBackoff, DefaultInitialBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, DefaultMaxBackoff)
	c.Resync = min(c.Resync, math.MaxInt64/10) // its variation does not overflow
	if c.Keys == nil {
		c.Keys = func(change cache.Change[T]) []string { return []string{change.Key} }
	}
	return c, nil
}

// requeueError is the error of [RequeueAfter].
type requeueError struct{ after time.Duration }

func (r requeueError) Error() string {
	return fmt.Sprintf("controller: reconcile again after %v", r.after)
}

// RequeueAfter returns an error for a reconcile function that has succeeded and is to be called again for the key after a
// time, or when the key changes before. It may be wrapped. Joined with another error it has no effect: the function has failed.
func RequeueAfter(d time.Duration) error { return requeueError{max(d, time.Nanosecond)} }

// requeue returns the error of RequeueAfter that err is or wraps; zero if there is none, or it is joined with another error.
func requeue(err error) requeueError {
	var joined interface{ Unwrap() []error }
	for errors.As(err, &joined) {
		if len(joined.Unwrap()) != 1 {
			return requeueError{}
		}
		err = joined.Unwrap()[0]
	}
	again, _ := errors.AsType[requeueError](err)
	return again
}

// Run calls reconcile for the key of each object of an informer, first for all existing objects, and then for those that change or are deleted, until ctx
// ends. It returns when all calls of reconcile and OnError have returned; the context of reconcile ends with ctx. A call of Keys may still run then.
// There is no call for a key that was deleted before: list what reconcile makes, and delete what has no object.
//
// A key that changes often before a worker is free is reconciled once; a key that changes while it is reconciled is
// reconciled again afterwards. No key is reconciled by two workers at a time. A key whose reconcile returns an error is
// tried again after a backoff, or when it changes before.
//
// reconcile reads the desired state from the informer, which has no object for a deleted key, and establishes it. It must be
// idempotent. To see its own writes, the next call needs them in the informer: [cache.Informer.WaitForRevision].
//
// To run in one process only, and with writes that are refused when it does not lead any more, call Run in the
// function of leaderelection.Run, and write through the KV of its term.
//
// The error is nil when ctx has ended, [cache.ErrClosed] when the informer is closed, or says what is wrong with cfg, or that reconcile is nil.
func Run[T any](ctx context.Context, in *cache.Informer[T], cfg Config[T], reconcile func(ctx context.Context, key string) error) error {
	cfg, err := cfg.complete()
	if err == nil && reconcile == nil {
		err = errors.New("controller: Run needs a function that reconciles")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := newQueue(retry.Policy{InitialBackoff: cfg.InitialBackoff, MaxBackoff: cfg.MaxBackoff}, cfg.RetriesPerSecond)
	defer q.close()
	remove := in.AddPrefixHandler(cfg.Prefix, func(change cache.Change[T]) {
		if change.Key == "" {
			return // Synced and Relisted
		}
		for _, key := range cfg.Keys(change) {
			q.add(key)
		}
	})
	defer remove()
	var running sync.WaitGroup
	defer running.Wait()
	for range cfg.Workers {
		running.Go(func() { work(ctx, q, cfg.OnError, reconcile) })
	}
	if cfg.Resync > 0 {
		running.Go(func() { resync(ctx, in, cfg, q) })
	}
	select {
	case <-ctx.Done():
		return nil
	case <-in.Done():
		cancel()
		return cache.ErrClosed
	}
}

// work reconciles one key after the other.
func work(ctx context.Context, q *queue, onError func(string, int, error), reconcile func(context.Context, string) error) {
	for {
		key, ok := q.get(ctx)
		if !ok {
			return
		}
		err := reconcile(ctx, key)
		again := requeue(err)
		failed := err != nil && again.after == 0
		failures := q.done(key, failed, again.after)
		if failed && onError != nil && ctx.Err() == nil {
			onError(key, failures, err)
		}
	}
}

// resync adds the keys of all objects at every Resync.
func resync[T any](ctx context.Context, in *cache.Informer[T], cfg Config[T], q *queue) {
	for pause.For(ctx, cfg.Resync*9/10+rand.N(cfg.Resync/5+1)) == nil {
		for key, o := range in.All(cfg.Prefix) {
			for _, k := range cfg.Keys(cache.Change[T]{Type: cache.Added, Key: key, New: o}) {
				q.add(k)
			}
		}
	}
}

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
