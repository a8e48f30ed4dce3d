package outage

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// Reporter is an [observe.Observer] that logs outages. It never blocks on the log: the goroutine
// of a timer writes the lines, which exists only during an outage. A Reporter must be closed.
type Reporter struct {
	observe.None
	log     func() *zap.Logger
	known   func() []health.Status // nil if nothing is
	running sync.WaitGroup         // the armed timer, or its function

	mu      sync.Mutex // guards the fields below
	machine *machine
	timer   *time.Timer
	armed   time.Time // when the timer fires, zero if it is not armed
	writing bool
	closed  bool
}

var _ observe.Observer = (*Reporter)(nil)

// New returns a Reporter. It calls log for the logger of each line, because a client's logger may
// be replaced, and known, during an outage, for the latest errors of the endpoints; nil: they are not compared.
func New(log func() *zap.Logger, known func() []health.Status) *Reporter {
	return &Reporter{log: log, known: known, machine: newMachine(known != nil)}
}

// EndpointsSet ends the outages of removed endpoints.
func (r *Reporter) EndpointsSet(endpoints []string) {
	r.tell(func(now time.Time) { r.machine.set(now, endpoints) })
}

// StateChanged starts and ends outages.
func (r *Reporter) StateChanged(c health.Change) {
	r.tell(func(now time.Time) { r.machine.change(now, c) })
}

// Retried counts a retry in the current outages.
func (r *Reporter) Retried(e observe.Retry) {
	r.note(e.Endpoint, tally{retries: 1, lastErr: e.Err})
}

// FailedOver counts a failover in the current outages.
func (r *Reporter) FailedOver(e observe.Failover) {
	r.note(e.From, tally{failovers: 1, lastErr: e.Err})
}

// HedgeSent counts a hedge in the current outages.
func (r *Reporter) HedgeSent(e observe.Hedge) { r.note(e.First, tally{hedges: 1}) }

// OutcomeUnknown counts an unknown outcome in the current outages.
func (r *Reporter) OutcomeUnknown(e observe.UnknownOutcome) {
	r.note(e.Endpoint, tally{unknown: 1, lastErr: e.Err})
}

// Close stops the reporter and returns when its goroutine has ended. Nothing is logged afterwards:
// the current outages have no last line. A second Close does nothing.
func (r *Reporter) Close() {
	r.mu.Lock()
	r.closed = true
	r.disarmLocked()
	r.mu.Unlock()
	r.running.Wait()
}

func (r *Reporter) note(endpoint string, t tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine.note(time.Now(), endpoint, t)
}

// tell passes an event to the machine and arms the timer if needed.
func (r *Reporter) tell(f func(now time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	f(time.Now())
	r.armLocked()
}

// armLocked arms the timer for the time at which the machine is due. While lines are written, the
// writer does that afterwards.
func (r *Reporter) armLocked() {
	now := time.Now()
	wake, ok := r.machine.wake(now)
	if !ok || r.closed || r.writing {
		return
	}
	if !r.armed.IsZero() && (!wake.Before(r.armed) || !r.disarmLocked()) {
		return
	}
	r.armed = wake
	r.running.Add(1)
	r.timer = time.AfterFunc(wake.Sub(now), r.tick)
}

// disarmLocked stops the timer. It returns false if there is none, or if it has fired and tick
// waits for the lock.
func (r *Reporter) disarmLocked() bool {
	if r.armed.IsZero() || !r.timer.Stop() {
		return false
	}
	r.armed = time.Time{}
	r.running.Done()
	return true
}

// tick writes the lines that are due.
func (r *Reporter) tick() {
	defer r.running.Done()
	var known []health.Status
	if r.known != nil {
		known = r.known()
	}
	for _, l := range r.take(known) {
		r.log().Log(l.level, l.message, l.fields...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = false
	r.armLocked()
}

// take returns the lines that are due. Until they are written no timer is armed, which keeps lines
// in order.
func (r *Reporter) take(known []health.Status) []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.writing = time.Time{}, true
	if r.closed {
		return nil
	}
	return r.machine.advance(time.Now(), known)
}
