package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/pause"
)

const (
	// prefix is what each client watches.
	prefix = "fleet/"
	// key is what each client reads.
	key = prefix + "key"
	// ttl, in seconds, is that of the lease.
	ttl = 30
	// interval is the time between two gets.
	interval = time.Second
	// openTimeout bounds the first calls of a client.
	openTimeout = 30 * time.Second
	// retryPause is the pause after a watch or a lease is lost.
	retryPause = time.Second
)

// caller uses one client: it watches, keeps a lease alive and makes gets.
type caller struct {
	client *clientv3.Client
	load   *load
	cancel context.CancelFunc
	work   sync.WaitGroup

	started, answered, failed atomic.Int64
	leasesLost, watchesLost   atomic.Int64
	hasAnswer                 atomic.Bool // since the last mark
}

// open makes the client, opens its watch and its lease, and uses it until the caller is
// closed.
func open(cfg clientv3.Config) (*caller, error) {
	opened, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &caller{client: opened, load: newLoad(), cancel: cancel}
	events := c.watch(ctx)
	kept, err := c.grant(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	c.work.Go(func() { c.keepWatch(ctx, events) })
	c.work.Go(func() { c.keepLease(ctx, kept) })
	c.work.Go(func() { c.makeGets(ctx) })
	return c, nil
}

// close ends the client and returns when it is gone.
func (c *caller) close() {
	c.cancel()
	c.work.Wait()
	_ = c.client.Close() // it has no more to say
}

// execute carries out a command and returns the state after it.
func (c *caller) execute(cmd Command) State {
	c.load.set(cmd.Deadline)
	if cmd.Mark {
		c.hasAnswer.Store(false)
	}
	s := State{
		Started: c.started.Load(), Answered: c.answered.Load(), Failed: c.failed.Load(),
		LeasesLost: c.leasesLost.Load(), WatchesLost: c.watchesLost.Load(),
	}
	if c.hasAnswer.Load() {
		s.HaveAnswers = 1
	}
	return s
}

func (c *caller) watch(ctx context.Context) clientv3.WatchChan {
	return c.client.Watch(ctx, prefix, clientv3.WithPrefix())
}

type renewals <-chan *clientv3.LeaseKeepAliveResponse

func (c *caller) grant(ctx context.Context) (renewals, error) {
	granting, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	lease, err := c.client.Grant(granting, ttl)
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	return c.client.KeepAlive(ctx, lease.ID)
}

// keepWatch opens a new watch when the client ends one.
func (c *caller) keepWatch(ctx context.Context, events clientv3.WatchChan) {
	for ctx.Err() == nil {
		if resp, open := <-events; open && resp.Err() == nil || ctx.Err() != nil {
			continue
		}
		c.watchesLost.Add(1)
		if pause.For(ctx, retryPause) != nil {
			return
		}
		events = c.watch(ctx)
	}
}

// keepLease grants a new lease when the client gives one up.
func (c *caller) keepLease(ctx context.Context, kept renewals) {
	for ctx.Err() == nil {
		if _, open := <-kept; open || ctx.Err() != nil {
			continue
		}
		c.leasesLost.Add(1)
		kept = c.grantAgain(ctx, kept)
	}
}

// grantAgain grants a lease until that succeeds. It returns the lost one when ctx ends
// first.
func (c *caller) grantAgain(ctx context.Context, lost renewals) renewals {
	for pause.For(ctx, retryPause) == nil {
		if kept, err := c.grant(ctx); err == nil {
			return kept
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
	timer := time.NewTimer(rand.N(interval))
	defer timer.Stop()
	next := time.Now()
	for first := true; ; first = false {
		select {
		case now := <-timer.C:
			if first {
				next = now
			}
			next = next.Add(interval)
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
	c.started.Add(1)
	if _, err := c.client.Get(getting, key); err != nil {
		c.failed.Add(1)
		return
	}
	c.answered.Add(1)
	c.hasAnswer.Store(true)
}
