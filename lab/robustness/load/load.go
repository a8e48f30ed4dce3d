// Package load keeps a store busy with a mix of calls: callers of every kind,
// each of which waits for the end of a call and a short pause before its next.
// Beside them it keeps watches and leases, as many as there are callers of a kind.
//
// A key is written once, by a put or beside a counter by a txn, or it is a
// counter that only its own caller increments. Gets read both, and the keys that
// were acknowledged last in the first place, since a stale answer shows there.
//
// The watches are on what the callers write, see [history.Scopes]. They begin at
// one revision, before the first write, and when one ends by itself its reader goes
// on with another from where it stood; so all of them are due every change in
// their scope.
//
// Each lease has a keeper, who attaches a key of its own to it and keeps it alive.
// The lease is lost when the client ends the keepalive, or when the key, which the
// keeper reads twice a second, is gone; the keeper then starts anew. What each read
// found is recorded beside what the client claimed of the lease at that time.
package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

// Config describes a load. Every field must be set.
type Config struct {
	// Callers of each kind of call.
	Callers int
	// Pause of a caller between two calls.
	Pause time.Duration
	// Timeout is the deadline of each call.
	Timeout time.Duration
	// Prefix of every key that callers write, ending in a slash.
	Prefix string
	// Revision at which the watches begin. Nothing may have been written under
	// Prefix before.
	Revision int64
	// LeasePrefix of every key that is attached to a lease, ending in a slash. It
	// must not be under Prefix, whose keys are written once and never deleted.
	LeasePrefix string
	// LeaseTTL is the time to live of each lease, in whole seconds. etcd grants no
	// less than one and a half times its election timeout, rounded up.
	LeaseTTL time.Duration
	// Seed of the choice of the keys to read.
	Seed uint64
	// Now returns the time since the run began.
	Now func() time.Duration
}

// Recorder receives everything that the load sees. It may be called
// concurrently.
type Recorder interface {
	// Invoke is called just before a call is sent, and the function that it
	// returns as soon as the call has returned.
	Invoke(call history.Call) (returned func(history.Call))
	// Watch is called just before a reader watches. Readers are numbered as
	// [history.Scopes] numbers their scopes.
	Watch(reader int, req history.WatchRequest, asked time.Duration) WatchLog
	// Lease is called when something has happened to a lease.
	Lease(history.LeaseEvent)
	// Look is called when the keeper of a lease has read its key.
	Look(history.LeaseLook)
}

// Load is a running load. Make one with [Start].
type Load struct {
	services client.Services
	recorder Recorder
	cfg      Config

	cut     context.CancelFunc // cuts the calls short that are under way
	stop    chan struct{}      // closed when no further call shall begin
	ending  sync.Once
	callers sync.WaitGroup

	letGo   context.CancelFunc // ends the keepers
	keepers sync.WaitGroup
	unwatch context.CancelFunc // ends the readers
	readers sync.WaitGroup
	// standing receives once from each reader and keeper, when its first watch stands
	// or it has its first lease.
	standing chan struct{}

	flight flight
	// recent holds, for each caller of puts, the sequence number of the put
	// that was acknowledged last, or -1.
	recent []atomic.Int64
}

// Start starts the readers of watches and the keepers of leases, and when the
// watches stand and the leases are granted, or when ctx ends, the callers. Then it
// returns. Stop must be called to end the callers and keepers, and then EndWatches.
func Start(ctx context.Context, services client.Services, recorder Recorder, cfg Config) *Load {
	l := &Load{
		services: services, recorder: recorder, cfg: cfg,
		stop:     make(chan struct{}),
		recent:   make([]atomic.Int64, cfg.Callers),
		standing: make(chan struct{}, 2*cfg.Callers),
	}
	l.flight.init()
	for i := range cfg.Callers {
		l.recent[i].Store(-1)
	}
	for range l.startReaders() + l.startKeepers() {
		select {
		case <-l.standing:
		case <-ctx.Done():
		}
	}
	l.startCallers()
	return l
}

func (l *Load) startCallers() {
	ctx, cut := context.WithCancel(context.Background())
	l.cut = cut
	for i := range l.cfg.Callers {
		for _, k := range history.Kinds() {
			rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(k)<<32|uint64(i)))
			l.callers.Go(func() { l.run(ctx, l.newCaller(k, i, rng), rng) })
		}
	}
}

// startReaders returns how many readers there are.
func (l *Load) startReaders() int {
	ctx, unwatch := context.WithCancel(context.Background())
	l.unwatch = unwatch
	if l.services.Watcher == nil {
		return 0
	}
	for i, scope := range history.Scopes(l.cfg.Callers) {
		l.readers.Go(func() { l.newReader(i, scope).run(ctx) })
	}
	return l.cfg.Callers
}

// startKeepers returns how many keepers there are.
func (l *Load) startKeepers() int {
	ctx, letGo := context.WithCancel(context.Background())
	l.letGo = letGo
	if l.services.Lessor == nil {
		return 0
	}
	for i := range l.cfg.Callers {
		l.keepers.Go(func() { l.newKeeper(i).run(ctx) })
	}
	return l.cfg.Callers
}

// stands is called by each reader and keeper once.
func (l *Load) stands() { l.standing <- struct{}{} }

// Settle returns when every call that had begun before has ended, or when ctx
// ends, with the error of ctx. A call ends by its deadline at the latest.
func (l *Load) Settle(ctx context.Context) error { return l.flight.settle(ctx) }

// Stop begins no further call and returns when those under way have ended; when
// ctx ends first they are cut short, and recorded as abandoned. The leases are no
// longer kept. The watches go on.
func (l *Load) Stop(ctx context.Context) {
	l.ending.Do(func() { close(l.stop) })
	defer context.AfterFunc(ctx, l.cut)()
	l.letGo()
	l.keepers.Wait()
	l.callers.Wait()
	l.cut()
}

// EndWatches ends the watches and returns when their channels have been closed.
func (l *Load) EndWatches() {
	l.unwatch()
	l.readers.Wait()
}

// run makes one call after the other until the load is stopped. The first pause
// is a random part of a whole one, so that callers do not march in step.
func (l *Load) run(ctx context.Context, c caller, rng *rand.Rand) {
	pause := time.NewTimer(time.Duration(rng.Int64N(int64(l.cfg.Pause) + 1)))
	defer pause.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-pause.C:
		}
		l.call(ctx, c)
		pause.Reset(l.cfg.Pause)
	}
}

// call makes one call of a caller and records it. It is cut short when ctx ends.
func (l *Load) call(ctx context.Context, c caller) {
	landed := l.flight.takeOff()
	defer landed()
	call := c.next()
	call.Start = l.cfg.Now()
	returned := l.recorder.Invoke(call)
	call.Err = l.send(ctx, c, &call)
	call.End = l.cfg.Now()
	call.Outcome = outcome(call.Kind, call.Err)
	if call.Outcome != history.OK {
		call.Code = code(call.Err)
		if ctx.Err() != nil {
			call.Outcome = history.Abandoned
		}
	}
	returned(call)
	c.learn(call)
}

// send makes a call, with its deadline.
func (l *Load) send(ctx context.Context, c caller, call *history.Call) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	return c.send(ctx, call)
}
