package balancer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/health"
)

const (
	// reconnectSpread is the time over which lost connections are reestablished while
	// other endpoints serve, so that the clients of a member do not reconnect all at
	// once. After an outage, the other endpoints are tried within it.
	reconnectSpread = 200 * time.Millisecond
	// needSpread is the time over which an endpoint that has failed for long is tried when
	// another one is lost.
	needSpread = 3 * time.Second

	// After the n-th failed attempt an endpoint is tried again after firstPause ×
	// pauseGrowth^(n-1), and up to pauseGrowth times as long: the pauses of gRPC's defaults,
	// with more jitter.
	firstPause  = 800 * time.Millisecond
	pauseGrowth = 1.6
	// maxPause is the longest pause while other endpoints serve, maxOutagePause while none does.
	maxPause       = time.Minute
	maxOutagePause = 15 * time.Second

	// maxBrief is how many connections in a row may be lost within firstPause, no work done, or found dead within
	// silentSoon, before the next attempts wait as after failed ones: something resets them, or loses large packets.
	// A proxy that ends a connection after so many requests does not slow the next one.
	maxBrief   = 3
	silentSoon = 2 * time.Second

	// subConnBackoff is the backoff of gRPC with [ConnectParams].
	subConnBackoff = 100 * time.Millisecond
	// minConnectTimeout is how long an attempt may take, TLS and HTTP/2 settings
	// included; gRPC's default. A member that restarts with thousands of TLS clients
	// queues their handshakes: a client that gives up early loses its place in the queue.
	minConnectTimeout = 20 * time.Second

	// When a connection ends an outage, probes and streams begin after a random part of a tenth
	// (outageShare) of its length, maxAfterOutage at most. For as long as the outage has lasted, maxUnproven
	// at most, streams wait while no endpoint serves, and no call is hedged. Streams that have waited begin
	// after a random part of 1/waitShare of that time.
	outageShare    = 10
	maxAfterOutage = time.Second
	maxUnproven    = 10 * time.Second
	waitShare      = 3

	// connectWait is how long streams wait for a connection before they use another
	// endpoint.
	connectWait = 500 * time.Millisecond
)

// ConnectParams returns the parameters for grpc.WithConnectParams that leave the pauses between
// attempts to connect to the policy. gRPC's backoff is a lower bound of these pauses: with
// gRPC's defaults, an endpoint that returns after a long outage is seen up to two minutes later.
// An attempt may take 20 s. grpc.ClientConn.Connect brings the next attempts forward;
// ResetConnectBackoff ends gRPC's backoff only.
func ConnectParams() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: subConnBackoff, Multiplier: 1, MaxDelay: subConnBackoff},
		MinConnectTimeout: minConnectTimeout,
	}
}

// reconnector decides when connections are made again. The policy's lock guards it.
type reconnector struct {
	p           *policy
	turns       turns
	afterOutage afterOutage
	// unprovenUntil is until when, after an outage of all, no call is hedged and few probes are sent; read without the lock.
	unprovenUntil health.Stamp
}

// turns spreads the attempts to connect while nothing is connected: one endpoint is tried at a
// time, in turn, and the first that connects ends the pauses of all. Together they are tried no more
// often than with a backoff each. The policy's lock guards it.
type turns struct {
	outage       bool      // nothing is connected
	since, ended time.Time // when the latest outage began, and when the one before ended
	taken        int       // in this outage, and in those before that ended with connections that did not last
	next         time.Time // when the next turn begins
}

// take returns when the next of n endpoints is tried.
func (t *turns) take(n int, now time.Time) time.Time {
	at := now
	if t.next.After(now) {
		at = t.next
	}
	t.next = at.Add(pauseAfter(t.taken/n, n, min(maxOutagePause, maxPause/time.Duration(n))))
	t.taken++
	return at
}

// pauseAfter returns the pause between two attempts of n endpoints that take turns, after so many
// earlier pauses of each; n is 1 for an endpoint on its own.
func pauseAfter(earlier, n int, limit time.Duration) time.Duration {
	least := float64(firstPause) * 2 / float64(n+1) * math.Pow(pauseGrowth, float64(earlier))
	least = min(least, float64(limit)/pauseGrowth)
	return time.Duration(least * (1 + (pauseGrowth-1)*rand.Float64()))
}

// noteOutageLocked records whether there is a connection for calls. When the last one is lost, it is
// tried again at once, and the other endpoints take their turns. Where connections do not last, the outage goes on, and
// all take their turns.
func (rc *reconnector) noteOutageLocked() {
	now, t := time.Now(), &rc.turns
	if rc.anyReadyLocked() || len(rc.p.all()) == 0 {
		if t.outage {
			rc.endOutageLocked(now.Sub(t.since), now)
			t.outage, t.ended = false, now
		}
		return
	}
	if t.outage {
		return
	}
	n := rc.triedLocked()
	if now.Sub(t.ended) >= silentSoon || !slices.ContainsFunc(rc.p.all(), func(ep *Endpoint) bool { return ep.conn(Calls).brief > maxBrief }) {
		t.taken = 0
	}
	t.outage, t.since, t.next = true, now, now
	t.take(n, now)
	for _, i := range rand.Perm(len(rc.p.all())) {
		if s := rc.p.all()[i].conn(Calls); s.waitsLocked(now) {
			rc.tryAtLocked(s, t.take(n, now))
		}
	}
}

// endOutageLocked spreads what follows an outage of the given length, and spares members that all clients return to: no
// call is hedged for a while, as no member answers sooner, and few probes are left.
func (rc *reconnector) endOutageLocked(length time.Duration, now time.Time) {
	rc.afterOutage.begin(length, now)
	time.AfterFunc(rc.afterOutage.streams.Sub(now), rc.p.publish)
	time.AfterFunc(rc.afterOutage.end.Sub(now), rc.p.publish)
	if length >= firstPause { // members have refused a second attempt
		rc.unprovenUntil.Set(rc.afterOutage.end)
		rc.p.prober.budget.keep(outageProbes, now)
	}
}

// afterOutage spreads the streams and the probes of many clients when an outage ends: they do not
// come at once, and members that have no leader yet do not refuse them. Calls do not wait: their
// answers show who serves. The policy's lock guards it.
type afterOutage struct {
	since   time.Time // when the outage ended
	probes  time.Time // when probes begin
	streams time.Time // when streams begin if an endpoint serves
	end     time.Time // when streams begin if none does
	waits   bool      // streams wait for an endpoint that serves
}

// begin is called when an outage of the given length ends.
func (a *afterOutage) begin(outage time.Duration, now time.Time) {
	from := now.Add(rand.N(min(outage/outageShare, maxAfterOutage) + 1))
	*a = afterOutage{since: now, probes: from, streams: from, end: now.Add(min(outage, maxUnproven))}
}

// holdsStreamsLocked reports whether streams that need full service wait. Those that have waited for an endpoint
// that serves begin within a part of the time that they have waited: all clients may see it at once.
func (rc *reconnector) holdsStreamsLocked(serves bool, now time.Time) bool {
	a := &rc.afterOutage
	switch {
	case now.Before(a.streams):
		return true
	case !serves:
		a.waits = now.Before(a.end)
		return a.waits
	case a.waits:
		a.waits = false
		spread := rand.N(now.Sub(a.since)/waitShare + 1)
		a.streams = now.Add(spread)
		time.AfterFunc(spread, rc.p.publish)
		return true
	default:
		return false
	}
}

// isUnproven reports whether an outage of all has ended, less long ago than it has lasted.
func (rc *reconnector) isUnproven() bool { return rc.unprovenUntil.After(time.Now()) }

// probesFrom returns when probes may be sent.
func (rc *reconnector) probesFrom() time.Time {
	rc.p.mu.Lock()
	defer rc.p.mu.Unlock()
	return rc.afterOutage.probes
}

// triedLocked returns the number of endpoints that are connected or tried, at least 1.
func (rc *reconnector) triedLocked() (n int) {
	for _, ep := range rc.p.all() {
		if ep.conn(Calls).sc != nil {
			n++
		}
	}
	return max(n, 1)
}

// anyReadyLocked reports whether there is a connection for calls.
func (rc *reconnector) anyReadyLocked() bool {
	return slices.ContainsFunc(rc.p.all(), (*Endpoint).Ready)
}

// waitsLocked reports whether the next attempt to connect is in the future.
func (s *subConn) waitsLocked(now time.Time) bool {
	return s.sc != nil && !s.ready.Load() && s.state != connectivity.Connecting && s.due.After(now)
}

// lostLocked counts a lost connection for calls if it did not last. After some, it sets when the next attempt is due.
func (s *subConn) lostLocked() {
	now, lasts := time.Now(), firstPause
	if s.foundDead {
		lasts = silentSoon
	}
	if s.brief++; now.Sub(s.attempted) >= lasts {
		s.brief = 0
	}
	if s.brief > maxBrief {
		s.due = now.Add(pauseAfter(s.brief-maxBrief-1, 1, maxOutagePause))
	}
}

// attemptFailedLocked sets when the next attempt is due.
func (rc *reconnector) attemptFailedLocked(s *subConn) {
	now := time.Now()
	s.failures++
	switch {
	case s.class == Calls && rc.turns.outage:
		s.due = rc.turns.take(rc.triedLocked(), now)
	case slices.ContainsFunc(rc.p.all(), func(ep *Endpoint) bool { return ep.Ready() && ep.State().Usable() }):
		s.due = now.Add(pauseAfter(s.failures-1, 1, maxPause))
	default:
		s.due = now.Add(pauseAfter(s.failures-1, 1, maxOutagePause))
	}
}

// reconnectLocked reestablishes a connection that was lost, or that gRPC's backoff allows to be tried
// again. Connections of classes other than Calls are made on demand.
func (rc *reconnector) reconnectLocked(s *subConn) {
	switch {
	case s.failures > 0, s.brief > maxBrief:
		rc.tryAtLocked(s, s.due)
	case s.class != Calls:
	case rc.anyReadyLocked():
		rc.tryAtLocked(s, time.Now().Add(rand.N(reconnectSpread)))
	default:
		rc.p.connectLocked(s)
	}
}

// tryAtLocked sets when the next attempt is due.
func (rc *reconnector) tryAtLocked(s *subConn, due time.Time) {
	s.due = due
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(due), func() { rc.tryDue(s) })
		return
	}
	s.timer.Reset(time.Until(due))
}

// tryDue connects if an attempt is due and gRPC's backoff allows it.
func (rc *reconnector) tryDue(s *subConn) {
	rc.p.mu.Lock()
	due := !rc.p.closed && s.sc != nil && s.state == connectivity.Idle && !s.due.After(time.Now())
	onDemand := s.class != Calls && s.fallbackOf == nil
	if due && !onDemand {
		rc.p.connectLocked(s)
	}
	rc.p.mu.Unlock()
	if due && onDemand {
		rc.p.publish() // for the calls that wait for the connection
	}
}

// connectLocked begins an attempt to connect.
func (p *policy) connectLocked(s *subConn) {
	s.attempted = time.Now()
	if len(s.ep.addresses) > 1 { // a fallback that has won has one address; gRPC closes a connection whose addresses change
		p.cc.UpdateAddresses(s.sc, markedAddresses(s)) //nolint:staticcheck // the same connection, with more addresses
	}
	s.sc.Connect()
}

// endPausesLocked ends the pauses of other endpoints once s is connected: the fault that affected it, and perhaps
// others, is over. Where connections do not last, this one must have lasted.
func (rc *reconnector) endPausesLocked(s *subConn) {
	if s.brief <= maxBrief {
		rc.reconnectSoonLocked(reconnectSpread)
		return
	}
	began := s.attempted
	time.AfterFunc(silentSoon, func() {
		rc.p.mu.Lock()
		defer rc.p.mu.Unlock()
		if s.ready.Load() && s.attempted.Equal(began) {
			rc.reconnectSoonLocked(reconnectSpread)
		}
	})
}

// reconnectSoonLocked brings forward the attempts to connect that wait: each is made at a random time within
// the given one, firstPause after the attempt before at the earliest.
func (rc *reconnector) reconnectSoonLocked(within time.Duration) {
	now := time.Now()
	for _, ep := range rc.p.all() {
		for _, s := range ep.connections() {
			due := now.Add(rand.N(within))
			if earliest := s.attempted.Add(firstPause); earliest.After(due) {
				due = earliest
			}
			if s.waitsLocked(now) && due.Before(s.due) {
				rc.tryAtLocked(s, due)
			}
		}
	}
}

// expectLocked limits how long streams wait for a connection: after connectWait they use
// other endpoints, and the endpoint is suspected.
func (rc *reconnector) expectLocked(s *subConn) {
	sc, due := s.sc, time.Now().Add(connectWait)
	time.AfterFunc(connectWait, func() {
		now := time.Now()
		if rc.markSlow(s, sc, now.Sub(due)) {
			rc.p.publish()
			rc.p.prober.suspect(s.ep, now, fmt.Sprintf("not connected within %v", connectWait))
		}
	})
}

// markSlow marks a connection that was not established in time.
func (rc *reconnector) markSlow(s *subConn, sc balancer.SubConn, late time.Duration) bool {
	rc.p.mu.Lock()
	defer rc.p.mu.Unlock()
	if rc.p.closed || s.sc != sc || s.state != connectivity.Connecting || s.slow {
		return false
	}
	if late > starved {
		rc.expectLocked(s) // the connection may be ready, but unread
		return false
	}
	s.slow = true
	return true
}
