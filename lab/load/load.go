// Package load keeps a store busy with a mix of calls: callers of every kind,
// each of which waits for the end of a call and a short pause before its next.
//
// A key is written once, by a put or beside a counter by a txn, or it is a
// counter that only its own caller increments. Gets read both, and the keys that
// were acknowledged last in the first place, since a stale answer shows there.
package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/lab/history"
)

// Config describes a load. Every field must be set.
type Config struct {
	// Callers of each kind of call.
	Callers int
	// Pause of a caller between two calls.
	Pause time.Duration
	// Timeout is the deadline of each call.
	Timeout time.Duration
	// Prefix of every key, ending in a slash.
	Prefix string
	// Seed of the choice of the keys to read.
	Seed uint64
	// Now returns the time since the run began.
	Now func() time.Duration
}

// Recorder is told of every call. It may be called concurrently.
type Recorder interface {
	// Invoke is called just before a call is sent, and the function that it
	// returns as soon as the call has returned.
	Invoke(call history.Call) (returned func(history.Call))
}

// Load is a running load. Make one with [Start].
type Load struct {
	store    Store
	recorder Recorder
	cfg      Config

	cut    context.CancelFunc // cuts the calls short that are under way
	stop   chan struct{}      // closed when no further call shall begin
	ending sync.Once
	wg     sync.WaitGroup

	flight flight
	// recent holds, for each caller of puts, the sequence number of the put
	// that was acknowledged last, or -1.
	recent []atomic.Int64
}

// Start starts the callers. Stop must be called to end them.
func Start(store Store, recorder Recorder, cfg Config) *Load {
	ctx, cut := context.WithCancel(context.Background())
	l := &Load{
		store: store, recorder: recorder, cfg: cfg,
		cut: cut, stop: make(chan struct{}),
		recent: make([]atomic.Int64, cfg.Callers),
	}
	l.flight.init()
	for i := range cfg.Callers {
		l.recent[i].Store(-1)
	}
	for i := range cfg.Callers {
		for _, k := range history.Kinds() {
			rng := rand.New(rand.NewPCG(cfg.Seed, uint64(k)<<32|uint64(i)))
			l.wg.Go(func() { l.run(ctx, l.newCaller(k, i, rng), rng) })
		}
	}
	return l
}

// Settle returns when every call that had begun before has ended, or when ctx
// ends, with the error of ctx. A call ends by its deadline at the latest.
func (l *Load) Settle(ctx context.Context) error { return l.flight.settle(ctx) }

// Stop begins no further call and returns when those under way have ended; when
// ctx ends first they are cut short, and recorded as abandoned.
func (l *Load) Stop(ctx context.Context) {
	l.ending.Do(func() { close(l.stop) })
	defer context.AfterFunc(ctx, l.cut)()
	l.wg.Wait()
	l.cut()
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
