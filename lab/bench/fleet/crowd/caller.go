package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/bench/client"
)

const (
	// prefix is what each client watches.
	prefix = "fleet/"
	// key is what each client reads.
	key = prefix + "key"
	// openTimeout bounds the first calls of a client.
	openTimeout = 30 * time.Second
	// retryPause is the pause after a watch or a lease is lost.
	retryPause = time.Second
)

// tally counts what the clients of a process do.
type tally struct {
	started, answered, failed atomic.Int64
	leasesLost, watchesLost   atomic.Int64
}

// caller uses one client: it watches, keeps a lease alive and makes gets.
type caller struct {
	client        client.Client
	ttl, interval time.Duration
	load          *load
	tally         *tally

	firstAnswer atomic.Int64 // Unix nanoseconds, 0 when there is none since the last mark
}

// open opens the watch and the lease, and then runs in goroutines of work until ctx
// ends.
func (c *caller) open(ctx context.Context, work *sync.WaitGroup) error {
	events := c.watch(ctx)
	renewals, err := c.grant(ctx)
	if err != nil {
		return err
	}
	work.Go(func() { c.keepWatch(ctx, events) })
	work.Go(func() { c.keepLease(ctx, renewals) })
	work.Go(func() { c.makeGets(ctx) })
	return nil
}

func (c *caller) watch(ctx context.Context) client.Watch {
	return c.client.Watch(ctx, prefix, client.WatchOptions{Prefix: true})
}

func (c *caller) grant(ctx context.Context) (client.Renewals, error) {
	granting, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	lease, err := c.client.Grant(granting, int64(c.ttl/time.Second))
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	return c.client.KeepAlive(ctx, lease)
}

// keepWatch opens a new watch when the client ends one.
func (c *caller) keepWatch(ctx context.Context, events client.Watch) {
	for ctx.Err() == nil {
		if _, err := events.Next(); err == nil || ctx.Err() != nil {
			continue
		}
		c.tally.watchesLost.Add(1)
		if pause.For(ctx, retryPause) != nil {
			return
		}
		events = c.watch(ctx)
	}
}

// keepLease grants a new lease when the client gives one up.
func (c *caller) keepLease(ctx context.Context, renewals client.Renewals) {
	for ctx.Err() == nil {
		if renewals.Next() == nil || ctx.Err() != nil {
			continue
		}
		c.tally.leasesLost.Add(1)
		renewals = c.grantAgain(ctx, renewals)
	}
}

// grantAgain grants a lease until that succeeds. It returns the lost one when ctx ends
// first.
func (c *caller) grantAgain(ctx context.Context, lost client.Renewals) client.Renewals {
	for pause.For(ctx, retryPause) == nil {
		if renewals, err := c.grant(ctx); err == nil {
			return renewals
		}
	}
	return lost
}

// makeGets makes gets while the load asks for them.
func (c *caller) makeGets(ctx context.Context) {
	var gets sync.WaitGroup
	defer gets.Wait()
	for ctx.Err() == nil {
		deadline, changed := c.load.get()
		if deadline == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		c.makeGetsUntil(ctx, deadline, changed, &gets)
	}
}

// makeGetsUntil makes a get each interval, from a random moment on, until the load
// changes. A get does not wait for the one before.
func (c *caller) makeGetsUntil(ctx context.Context, deadline time.Duration, changed <-chan struct{}, gets *sync.WaitGroup) {
	timer := time.NewTimer(rand.N(c.interval))
	defer timer.Stop()
	next := time.Now()
	for first := true; ; first = false {
		select {
		case now := <-timer.C:
			if first {
				next = now
			}
			next = next.Add(c.interval)
			timer.Reset(time.Until(next))
			gets.Go(func() { c.get(ctx, deadline) })
		case <-changed:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (c *caller) get(ctx context.Context, deadline time.Duration) {
	getting, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	c.tally.started.Add(1)
	if err := c.client.Get(getting, key); err != nil {
		c.tally.failed.Add(1)
		return
	}
	c.tally.answered.Add(1)
	c.firstAnswer.CompareAndSwap(0, time.Now().UnixNano())
}
