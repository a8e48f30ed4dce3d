package outage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/observe"
)

// settle is how long after a change the outages are examined: many endpoints change at once.
const settle = 50 * time.Millisecond

// Reporter is an [observe.Observer] that logs outages. It never blocks on the log: a goroutine
// writes the lines, which exists during an outage and shortly after a change. A Reporter must be closed.
type Reporter struct {
	observe.None
	log     func() *zap.Logger
	known   func() []health.Status // nil if nothing is
	change  chan struct{}          // wakes the goroutine
	ctx     context.Context        // ends with Close, under mu
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	states    observe.States
	endpoints map[string]*outage
	cluster   outage
	changed   time.Time // of the latest change
	lines     []line    // not written yet
	following bool      // the goroutine runs
}

var _ observe.Observer = (*Reporter)(nil)

// New returns a Reporter. It calls log for the logger of each line, because a client's logger may
// be replaced, and known, during an outage, for the latest errors of the endpoints; nil: they are not compared.
func New(log func() *zap.Logger, known func() []health.Status) *Reporter {
	r := &Reporter{log: log, known: known, change: make(chan struct{}, 1), endpoints: make(map[string]*outage)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// EndpointsSet ends the outages of removed endpoints.
func (r *Reporter) EndpointsSet(endpoints []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	removed := r.states.Set(endpoints)
	for _, ep := range removed {
		r.removeLocked(ep)
	}
	if len(removed) > 0 {
		r.followLocked()
	}
}

// StateChanged starts and ends outages.
func (r *Reporter) StateChanged(c health.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.followLocked() // any change may be that by which no endpoint serves
	if !r.states.Change(c) {
		r.removeLocked(c.Endpoint)
		return
	}
	now, o := time.Now(), r.endpoints[c.Endpoint]
	if o == nil {
		o = new(outage)
		r.endpoints[c.Endpoint] = o
	}
	switch c.To {
	case health.Lagging, health.Degraded, health.NotServing, health.Dead:
		o.set(true, now)
		o.state, o.evidence = c.To, c.Evidence
		o.note(now, tally{lastErr: c.Evidence.Err})
	case health.Serving, health.Slow, health.Restricted:
		o.set(false, now)
	case health.Unknown, health.Suspected, health.Draining:
	}
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
	r.cancel()
	r.mu.Unlock()
	r.running.Wait()
}

// note counts attempts on an endpoint, "" if unknown.
func (r *Reporter) note(endpoint string, t tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.cluster.note(now, t)
	if o := r.endpoints[endpoint]; o != nil {
		o.note(now, t)
	}
}

func (r *Reporter) removeLocked(endpoint string) {
	o := r.endpoints[endpoint]
	if o == nil {
		return
	}
	delete(r.endpoints, endpoint)
	if o.logged && !o.covered {
		o.set(false, time.Now())
		r.logLocked(zap.InfoLevel, "an endpoint that was out has been removed", o.cause(endpoint), o.summary())
	}
}

// followLocked lets the goroutine examine a change, and starts it if it does not run.
func (r *Reporter) followLocked() {
	r.changed = time.Now()
	if r.following {
		pause.Signal(r.change)
	} else if r.ctx.Err() == nil {
		r.following = true
		r.running.Go(r.follow)
	}
}

// follow logs outages until none is left.
func (r *Reporter) follow() {
	for next := time.Now().Add(settle); !next.IsZero() && r.waitUntil(next); {
		var known []health.Status
		if r.known != nil {
			known = r.known()
		}
		var lines []line
		lines, next = r.examine(known)
		for _, l := range lines {
			r.log().Log(l.level, l.message, l.fields...)
		}
	}
}

// waitUntil waits until a time, or until shortly after a change. It returns false if the reporter is closed.
func (r *Reporter) waitUntil(next time.Time) bool {
	if pause.Until(r.ctx, r.change, time.Until(next)) == nil && time.Now().Before(next) { // there was a change
		_ = pause.For(r.ctx, settle)
	}
	return r.ctx.Err() == nil
}

// examine returns the lines that are due, and when it must be called again: zero if no outage is left.
func (r *Reporter) examine(known []health.Status) (lines []line, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil, time.Time{}
	}
	now, latest := time.Now(), make(map[string]health.Status, len(known))
	for _, s := range known {
		latest[s.Endpoint] = s
	}
	r.examineClusterLocked(now)
	next = r.cluster.due()
	changed := false
	for _, ep := range slices.Sorted(maps.Keys(r.endpoints)) {
		o := r.endpoints[ep]
		if o.isDue(now) {
			changed = r.examineEndpointLocked(now, ep, o, latest[ep]) || changed
		}
		if due := o.due(); due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if changed && r.cluster.down {
		r.logLocked(zap.WarnLevel, "no endpoint can serve, for another reason", r.cluster.list("endpoints", r.coverLocked()), r.cluster.tried.fields())
	}
	lines, r.lines = r.lines, nil
	if next.IsZero() && len(lines) > 0 {
		next = now // no other goroutine writes before these are written
	}
	r.following = !next.IsZero()
	return lines, next
}

// examineClusterLocked sets whether the cluster is out, and handles what is due. While no endpoint serves, but one may, the cluster
// is as before.
func (r *Reporter) examineClusterLocked(now time.Time) {
	serves, may, down := false, false, false
	for _, ep := range r.states.Endpoints() {
		state, _ := r.states.Of(ep)
		o := r.endpoints[ep]
		switch {
		case o != nil && o.down:
			down = true
		case state == health.Serving, state == health.Slow, state == health.Suspected:
			serves = true
		case state != health.Restricted:
			may = true
		}
	}
	c := &r.cluster
	if serves || down && !may {
		c.set(!serves, r.changed)
	}
	switch {
	case !c.isDue(now):
	case c.down:
		r.logLocked(zap.WarnLevel, "no endpoint can serve", c.list("endpoints", r.coverLocked()), c.tried.fields())
		c.start(false)
	case c.logged:
		r.logLocked(zap.InfoLevel, "the cluster serves again", c.list("still-out", r.uncoverLocked()), c.summary())
		c.end()
	default:
		c.end()
	}
}

// examineEndpointLocked handles what is due. It reports whether the reason changed for an endpoint that is covered by the line about
// the cluster.
func (r *Reporter) examineEndpointLocked(now time.Time, ep string, o *outage, latest health.Status) (changed bool) {
	switch {
	case o.down && o.logged:
		if !o.hasNewReason(now, latest) {
			return false
		}
		if o.covered {
			r.cluster.tried.lastErr = latest.LastErr
			return true
		}
		r.logLocked(zap.WarnLevel, "an endpoint is out for another reason", o.cause(ep), o.tried.fields())
	case o.down && r.cluster.logged:
		o.covered = true
		o.start(r.known != nil)
	case o.down && !r.cluster.begin.IsZero(): // the whole cluster may be out
	case o.down:
		r.logLocked(zap.WarnLevel, "an endpoint is out", o.cause(ep), o.tried.fields())
		o.start(r.known != nil)
	case o.logged && !o.covered:
		r.logLocked(zap.InfoLevel, "an endpoint serves again", o.cause(ep), o.summary())
		o.end()
	default:
		o.end()
	}
	return false
}

// coverLocked lets the line about the cluster stand for all endpoints that are down, and returns them.
func (r *Reporter) coverLocked() (down []member) {
	for _, ep := range slices.Sorted(maps.Keys(r.endpoints)) {
		o := r.endpoints[ep]
		if !o.down {
			continue
		}
		if !o.logged {
			o.covered = true
			o.start(r.known != nil)
		}
		down = append(down, member{ep, o.state, o.evidence})
	}
	return down
}

// uncoverLocked ends the outages of the endpoints that recovered with the cluster, and returns the others.
func (r *Reporter) uncoverLocked() (still []member) {
	for _, ep := range slices.Sorted(maps.Keys(r.endpoints)) {
		o := r.endpoints[ep]
		if o.covered && !o.down {
			o.end()
		}
		o.covered = false
		if o.down && o.logged {
			still = append(still, member{ep, o.state, o.evidence})
		}
	}
	return still
}
