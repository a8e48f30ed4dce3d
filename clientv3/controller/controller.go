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
