package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
)

// Config configures an [Engine].
type Config struct {
	// Streams opens the stream.
	Streams Streams
	// FirstAnswer is how long a lease with unknown expiry may wait for its first
	// answer before its keepers end.
	FirstAnswer time.Duration
	// Observer receives each renewal, and each loss of a lease that had keepers. It is called without locks.
	Observer observe.Observer
}

// Engine keeps leases alive. It starts with the first subscriber, and must be
// closed.
type Engine struct {
	config  Config
	ctx     context.Context // ends with the engine
	cancel  context.CancelFunc
	running sync.WaitGroup

	sendable chan struct{} // signals the writer that there may be requests
	wanted   chan struct{} // signals the reader that there are leases

	mu      sync.Mutex // guards the rest
	machine *Machine
	started bool
	halted  error       // why there will be no more renewals
	timer   *time.Timer // calls tick; nil until first needed
	armed   time.Time   // when timer fires, zero if it is stopped
	link    link
}

// New returns an Engine that does nothing yet.
func New(config Config) *Engine {
	e := &Engine{
		config:   config,
		sendable: make(chan struct{}, 1),
		wanted:   make(chan struct{}, 1),
		machine:  NewMachine(time.Now(), config.FirstAnswer, rand.Float64),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Subscribe adds a subscriber to a lease until ctx ends, and closes it if ctx has ended. It
// returns an error if the engine has ended, and does not use the subscriber then.
func (e *Engine) Subscribe(ctx context.Context, id int64, s *Subscriber) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return e.halted
	}
	if err := ctx.Err(); err != nil {
		s.Sink.Close(err)
		return nil
	}
	e.startLocked()
	now := time.Now()
	e.machine.Subscribe(now, id, s)
	s.stop = context.AfterFunc(ctx, func() {
		e.update(func(now time.Time) { e.machine.Unsubscribe(now, s, ctx.Err()) })
	})
	e.arrangeLocked(now)
	return nil
}

// Granted records that a lease was granted for ttl seconds by a request sent at the
// given time.
func (e *Engine) Granted(sent time.Time, id, ttl int64) {
	e.update(func(now time.Time) { e.machine.Granted(now, sent, id, ttl) })
}

// Revoked records that a lease was revoked, and ends its subscriptions.
func (e *Engine) Revoked(id int64) {
	e.update(func(now time.Time) { e.machine.Revoked(now, id) })
}

// Close ends all subscriptions with the given cause, and returns when all
// goroutines of the engine have ended. A second Close does nothing.
func (e *Engine) Close(cause error) {
	e.stop(cause)
	e.running.Wait()
}

// stop ends all subscriptions and lets the goroutines end.
func (e *Engine) stop(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return
	}
	e.halted = cause
	e.machine.Close(cause)
	e.cancel()
	if e.timer != nil {
		e.timer.Stop()
	}
}

func (e *Engine) startLocked() {
	if e.started {
		return
	}
	e.started = true
	e.running.Go(e.read)
	e.running.Go(e.write)
}

// update calls f on the machine, unless the engine has ended, and reports the lost leases.
func (e *Engine) update(f func(now time.Time)) {
	for _, lost := range e.apply(f) {
		e.config.Observer.LeaseLost(lost)
	}
}

// apply is update without the report. It returns the lost leases.
func (e *Engine) apply(f func(now time.Time)) []observe.LeaseLoss {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return nil
	}
	now := time.Now()
	f(now)
	if e.started {
		e.arrangeLocked(now)
	}
	return e.machine.TakeLost()
}

func (e *Engine) tick() {
	e.update(func(now time.Time) {
		e.armed = time.Time{}
		e.machine.Advance(now)
		if err := e.machine.Silent(now); err != nil {
			e.loseLocked(now, err)
		}
		if e.machine.Moving(now) {
			e.loseLocked(now, errMoved)
		}
	})
}

func (e *Engine) arrangeLocked(now time.Time) {
	if e.machine.Sendable() {
		pause.Signal(e.sendable)
	}
	if e.machine.Wanted() {
		pause.Signal(e.wanted)
	}
	if e.machine.Waits() {
		e.config.Streams.Wake()
	}
	if wake, ok := e.machine.WakeAt(); ok && (e.armed.IsZero() || wake.Before(e.armed)) {
		e.armLocked(wake, wake.Sub(now))
	}
}

// armLocked sets the timer that calls tick. An armed timer is not moved to a later
// time: most answers postpone the next action, and need not set the timer.
func (e *Engine) armLocked(wake time.Time, after time.Duration) {
	e.armed = wake
	if e.timer == nil {
		e.timer = time.AfterFunc(after, e.tick)
		return
	}
	e.timer.Reset(after)
}
