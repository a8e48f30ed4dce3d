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
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup

	deadline time.Duration      // of the gets that are made, 0 if there are none
	stopGets context.CancelFunc // makes no more of them

	answered, failed atomic.Int64
	hasAnswer        atomic.Bool // since the last mark
}

// open makes the client, opens its watch and its lease, and uses it until the caller is
// closed.
func open(cfg clientv3.Config) (*caller, error) {
	opened, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &caller{client: opened, ctx: ctx, cancel: cancel, stopGets: func() {}}
	events := c.watch(ctx)
	kept, err := c.grant(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	c.work.Go(func() { c.keepWatch(ctx, events) })
	c.work.Go(func() { c.keepLease(ctx, kept) })
	return c, nil
}

// close ends the client and returns when it is gone.
func (c *caller) close() {
	c.cancel()
	c.work.Wait()
	_ = c.client.Close() // its error says nothing new
}

// execute carries out a command and returns the state after it.
func (c *caller) execute(cmd Command) State {
	c.load(cmd.Deadline)
	if cmd.Mark {
		c.hasAnswer.Store(false)
	}
	s := State{Answered: c.answered.Load(), Failed: c.failed.Load()}
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

// load makes gets with a deadline from now on, or none with 0.
func (c *caller) load(deadline time.Duration) {
	if deadline == c.deadline {
		return
	}
	c.deadline = deadline
	c.stopGets()
	var making context.Context
	making, c.stopGets = context.WithCancel(c.ctx)
	if deadline > 0 {
		c.work.Go(func() { c.makeGets(making, deadline) })
	}
}

// makeGets starts a get each interval, from a random moment on, until making ends. A get
// does not wait for the previous one, and may outlast making.
func (c *caller) makeGets(making context.Context, deadline time.Duration) {
	for next := time.Now().Add(rand.N(interval)); pause.For(making, time.Until(next)) == nil; next = next.Add(interval) {
		c.work.Go(func() { c.get(c.ctx, deadline) })
	}
}

func (c *caller) get(ctx context.Context, deadline time.Duration) {
	getting, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if _, err := c.client.Get(getting, key); err != nil {
		c.failed.Add(1)
		return
	}
	c.answered.Add(1)
	c.hasAnswer.Store(true)
}
