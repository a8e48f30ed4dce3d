package outage

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
)

// Reporter is an [observe.Observer] that logs outages. It never waits for the log: lines
// are written by a timer's goroutine, which there is only while something is wrong. It
// has to be closed.
type Reporter struct {
	observe.None
	log     func() *zap.Logger
	running sync.WaitGroup // the timer that is armed, or its function

	mu      sync.Mutex // guards the rest
	machine *machine
	timer   *time.Timer
	armed   time.Time // when the timer fires, zero if it does not
	writing bool
	closed  bool
}

var _ observe.Observer = (*Reporter)(nil)

// New returns a Reporter. log is asked for the logger of each line, because a client's
// may be replaced.
func New(log func() *zap.Logger) *Reporter {
	return &Reporter{log: log, machine: newMachine()}
}

// EndpointsSet ends the outages of endpoints that are removed.
func (r *Reporter) EndpointsSet(endpoints []string) {
	r.tell(func(now time.Time) { r.machine.set(now, endpoints) })
}

// StateChanged is how outages begin and end.
func (r *Reporter) StateChanged(c health.Change) {
	r.tell(func(now time.Time) { r.machine.change(now, c) })
}

// Retried counts a retry for the outages there are.
func (r *Reporter) Retried(e observe.Retry) {
	r.note(e.Endpoint, tally{retries: 1, lastErr: e.Err})
}

// FailedOver counts a failover for the outages there are.
func (r *Reporter) FailedOver(e observe.Failover) {
	r.note(e.From, tally{failovers: 1, lastErr: e.Err})
}

// HedgeSent counts a hedge for the outages there are.
func (r *Reporter) HedgeSent(e observe.Hedge) { r.note(e.First, tally{hedges: 1}) }

// OutcomeUnknown counts an unknown outcome for the outages there are.
func (r *Reporter) OutcomeUnknown(e observe.UnknownOutcome) {
	r.note(e.Endpoint, tally{unknown: 1, lastErr: e.Err})
}

// Close ends the reporter, and returns when nothing of it runs any more. Nothing is
// logged after that: an outage that lasts has no last line. A second Close does nothing.
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

// tell tells the machine something, and has it called again when there is a reason to.
func (r *Reporter) tell(f func(now time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	f(time.Now())
	r.armLocked()
}

// armLocked has tick called when the machine wants to be. While lines are written it is
// left to the writer.
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

// disarmLocked stops the timer. It returns false if there is none to stop, or if it has
// fired and tick waits for the lock.
func (r *Reporter) disarmLocked() bool {
	if r.armed.IsZero() || !r.timer.Stop() {
		return false
	}
	r.armed = time.Time{}
	r.running.Done()
	return true
}

// tick writes what is due.
func (r *Reporter) tick() {
	defer r.running.Done()
	for _, l := range r.take() {
		l.write(r.log())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = false
	r.armLocked()
}

// take returns the lines that are due. Until they are written no timer is armed, so that
// lines stay in order.
func (r *Reporter) take() []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.writing = time.Time{}, true
	if r.closed {
		return nil
	}
	return r.machine.advance(time.Now())
}
