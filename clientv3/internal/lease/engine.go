package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Config is what an [Engine] needs.
type Config struct {
	// Streams opens the stream.
	Streams Streams
	// FirstAnswer is how long a lease of which nothing is known yet may wait for
	// its first answer before it is given up.
	FirstAnswer time.Duration
	// Logger returns the logger.
	Logger func() *zap.Logger
	// Renewed, if set, is notified of renewals, and Lost of leases that had keepers and are
	// gone. They are called without locks, perhaps at the same time, and must not
	// block.
	Renewed func(Renewal)
	Lost    func(Loss)
}

// Engine keeps leases alive. It starts working with the first subscriber, and has
// to be closed.
type Engine struct {
	config  Config
	ctx     context.Context // ends with the engine
	cancel  context.CancelFunc
	running sync.WaitGroup

	sendable chan struct{} // tells the writer that there is something new
	wanted   chan struct{} // tells the reader that there are leases
	batch    []int64       // the writer's

	mu      sync.Mutex // guards the rest
	machine *Machine
	started bool
	halted  error       // why there will be no more renewals
	timer   *time.Timer // calls tick; nil until there is something to wait for
	armed   time.Time   // when it does, zero if it does not
	link    link
}

// New returns an Engine that does nothing yet.
func New(config Config) *Engine {
	e := &Engine{
		config:   config,
		sendable: make(chan struct{}, 1),
		wanted:   make(chan struct{}, 1),
		batch:    make([]int64, 0, maxBatch),
		machine:  NewMachine(time.Now(), config.FirstAnswer, rand.Float64),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Subscribe adds a subscriber to a lease until ctx ends. The error says why the
// engine has ended; the subscriber is not used then.
func (e *Engine) Subscribe(ctx context.Context, id int64, s *Subscriber) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.halted != nil {
		return e.halted
	}
	e.startLocked()
	now := time.Now()
	e.machine.Subscribe(now, id, s)
	if ctx.Done() != nil {
		s.stop = context.AfterFunc(ctx, func() {
			e.update(func(now time.Time) { e.machine.Unsubscribe(now, s, ctx.Err()) })
		})
	}
	e.arrangeLocked(now)
	return nil
}

// Granted notes that a lease was granted for ttl seconds by a request that was
// sent at the given time.
func (e *Engine) Granted(sent time.Time, id, ttl int64) {
	e.update(func(now time.Time) { e.machine.Granted(now, sent, id, ttl) })
}

// Revoked notes that a lease was revoked. Its subscriptions end.
func (e *Engine) Revoked(id int64) {
	e.update(func(now time.Time) { e.machine.Revoked(now, id) })
}

// Close ends all subscriptions with the given cause, and returns when nothing of
// the engine runs any more. A second Close does nothing.
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

// update tells the machine something, unless the engine has ended.
func (e *Engine) update(f func(now time.Time)) { e.report(e.apply(f)) }

// apply is update without its report. It returns the leases that were lost.
func (e *Engine) apply(f func(now time.Time)) []Loss {
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

// tick tells the machine that time has passed.
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

// arrangeLocked sees to it that what the machine wants is done.
func (e *Engine) arrangeLocked(now time.Time) {
	if e.machine.Sendable() {
		signal(e.sendable)
	}
	if e.machine.Wanted() {
		signal(e.wanted)
	}
	if e.machine.Waits() {
		e.config.Streams.Wake()
	}
	if wake, ok := e.machine.Wake(); ok && (e.armed.IsZero() || wake.Before(e.armed)) {
		e.armLocked(wake, wake.Sub(now))
	}
}

// armLocked has tick called. What is due later than that is asked for then: most
// answers put off what is next, and none of them has to set a timer.
func (e *Engine) armLocked(wake time.Time, after time.Duration) {
	e.armed = wake
	if e.timer == nil {
		e.timer = time.AfterFunc(after, e.tick)
		return
	}
	e.timer.Reset(after)
}

// signal wakes the one who waits for c, or will.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
