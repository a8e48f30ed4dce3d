package balancer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer/internal/probe"
	"github.com/quorate/quorate/health"
)

// subConn is the connection of one class to an endpoint, through all its reconnections.
// The policy's lock guards it, except for atomic fields.
type subConn struct {
	ep    *Endpoint
	class ConnClass

	sc    balancer.SubConn // nil while no connection is wanted
	state connectivity.State
	// failures counts the attempts to connect that have failed since the latest connection.
	failures int
	// brief counts the connections for calls in a row that did not last, see maxBrief. foundDead is set if the policy closed
	// the latest because it was silent, or at the end of a drain, where no connection follows.
	brief     int
	foundDead bool
	// attempted is when the latest attempt began, due when the next one may; the timer fires then.
	attempted, due time.Time
	timer          *time.Timer // nil before the first
	// slow is set while connecting takes longer than connectWait.
	slow bool
	err  error // the error of the latest failed attempt

	ready   atomic.Bool // there is a connection
	failing atomic.Bool // the latest attempt to connect failed
	useful  atomic.Bool // the latest connection has served a call, or a message of a stream
	// withheld is set from each new connection for calls on, until gRPC's health check says that its server
	// serves, and while it says that it does not, for the reason unhealthy.
	withheld  atomic.Bool
	unhealthy error

	conn netConn
	// heard is when the latest message arrived on the connection. probeSent is when the oldest
	// unanswered probe was sent, nil for none. livenessSent is the same for liveness checks, but a message
	// does not clear it: see unanswered. completed is the start of the work that was completed over it last.
	heard, completed        health.Stamp
	probeSent, livenessSent atomic.Pointer[time.Time]
	// alive is since when other connections show that the endpoint is alive, while this
	// one is silent; zero if none does. Only the investigation uses it.
	alive time.Time
	// checking is set while a check of the connection runs.
	checking atomic.Bool
	// closing is set while the connection is about to be closed: see closeLater.
	closing atomic.Bool
	// onTrial is set for a second connection, and for a fallback, while it is not in use.
	onTrial bool
	// fallbacks are attempts at other addresses beside the one under way; fallbackOf is set for each of them.
	// first is the index of the address that is tried first.
	fallbacks  []*subConn
	fallbackOf *subConn
	first      int
	// made counts the connections that were made, unsent the probes that wait for the server to allow another stream.
	made, unsent atomic.Int32
}

// heardAt records a complete message of the server, on the nth connection that was made: one on an earlier connection,
// which the server is closing, is no sign of life of the present one.
func (s *subConn) heardAt(now time.Time, nth int32) {
	if nth == s.made.Load() {
		s.heard.Set(now)
	}
	if sent := s.probeSent.Load(); sent != nil && s.heard.After(*sent) {
		s.probeSent.CompareAndSwap(sent, nil)
	}
	s.conn.complete.Store(s.conn.received.Load()) // a whole message has arrived
	s.ep.healthEntry().Alive(now)
	if s.ep.policy.holding.Load() {
		s.ep.policy.release()
	}
}

// noteProbe records a probe.
func (s *subConn) noteProbe(kind probeKind, now time.Time) {
	if s.unanswered(&s.probeSent, now) == 0 {
		s.probeSent.Store(&now)
	}
	if (kind == forLiveness || kind == forLocal) && s.unanswered(&s.livenessSent, now) == 0 {
		s.livenessSent.Store(&now)
	}
}

// unanswered returns how long a probe has been unanswered, 0 if none is.
func (s *subConn) unanswered(probe *atomic.Pointer[time.Time], now time.Time) time.Duration {
	sent := probe.Load()
	if sent == nil || s.heard.After(*sent) {
		return 0
	}
	return max(now.Sub(*sent), 1)
}

// livenessTimeout is how long the response to a liveness check may take: about a probe round.
const livenessTimeout = probe.Round - probe.Round/10

// silentFor returns how long nothing has arrived since the first probe, 0 if it was
// answered. Only an unanswered liveness check counts as silence: an endpoint with only a
// service probe unanswered may be stalled.
func (s *subConn) silentFor(now time.Time) time.Duration {
	if s.unanswered(&s.livenessSent, now) < livenessTimeout {
		return 0
	}
	return s.unanswered(&s.probeSent, now)
}

// completedSince reports whether the connection has completed work that began at t or later.
func (s *subConn) completedSince(t time.Time) bool { return s.completed.After(t) }

// forget discards the unanswered probes.
func (s *subConn) forget() {
	s.probeSent.Store(nil)
	s.livenessSent.Store(nil)
}

// openLocked makes the subConn of gRPC, and connects it, or lets it wait where connections do not last.
func (p *policy) openLocked(s *subConn) {
	var sc balancer.SubConn
	sc, err := p.cc.NewSubConn(markedAddresses(s), balancer.NewSubConnOptions{ //nolint:staticcheck // an endpoint with two addresses is one with two families, tried in turn
		StateListener: func(st balancer.SubConnState) { p.connChanged(s, sc, st) },
	})
	if err != nil {
		s.err = err
		s.failing.Store(true)
		return
	}
	s.sc, s.state = sc, connectivity.Idle
	if s.waitsLocked(time.Now()) {
		p.reconnects.tryAtLocked(s, s.due)
		return
	}
	p.connectLocked(s)
}

// shutLocked ends the connection gracefully: streams on it may go on.
func (s *subConn) shutLocked() {
	if s.sc == nil {
		return
	}
	s.sc.Shutdown()
	s.endRaceLocked()
	s.disconnectedLocked()
	s.sc, s.state, s.slow, s.err, s.failures = nil, connectivity.Idle, false, nil, 0
	if s.brief <= maxBrief {
		s.due = time.Time{}
	}
	s.failing.Store(false)
	if s.timer != nil {
		s.timer.Stop()
	}
}

// disconnectedLocked records the loss of the connection, and takes it from pickers.
func (s *subConn) disconnectedLocked() {
	if u := s.ep.usable[s.class].Load(); u != nil && u.subConn == s {
		s.ep.usable[s.class].Store(nil)
	}
	if s.ready.Swap(false) && s.class == Calls && !s.onTrial {
		s.ep.healthEntry().AddConnections(-1)
	}
}

// connChanged handles a connection's new state.
func (p *policy) connChanged(s *subConn, sc balancer.SubConn, st balancer.SubConnState) {
	taken, ok := p.takeState(s, sc, st)
	if !ok {
		return
	}
	now := time.Now()
	if taken.state == connectivity.Ready {
		s.heardAt(now, s.made.Load())
	}
	p.changedBy(s, sc, taken)
	if taken.state == connectivity.Ready {
		p.prober.connected(s)
	} else {
		// Either the connection is lost and its streams have ended, or the server closes it (GOAWAY) and would keep
		// them until it stops. Other streams may complete before that.
		s.moveStreams(errMoving)
	}
}

// changedBy handles what a connection's new state shows of its endpoint.
func (p *policy) changedBy(s *subConn, sc balancer.SubConn, taken takenState) {
	if taken.joined.From != taken.joined.To {
		p.changed(s.ep, taken.joined)
	}
	if taken.evidence.Detail != "" {
		p.note(s.ep, taken.evidence)
	}
	if taken.state == connectivity.Ready && s.class == Calls {
		sc.RegisterHealthListener(func(st balancer.SubConnState) { s.healthChanged(sc, st) }) // the first report publishes
	} else {
		p.publish()
	}
}

// takenState is the result of takeState.
type takenState struct {
	state    connectivity.State
	evidence health.Evidence // without a Detail it is none
	joined   health.Change   // by joining the shared table
}

// takeState applies a connection's new state. It returns false if the policy no longer
// uses the connection.
func (p *policy) takeState(s *subConn, sc balancer.SubConn, st balancer.SubConnState) (t takenState, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.sc == nil || s.sc != sc || p.closed {
		return t, false
	}
	if s.onTrial && !p.wonLocked(s, st.ConnectivityState) {
		s.state = st.ConnectivityState
		s.ready.Store(s.state == connectivity.Ready)
		s.failing.Store(s.state != connectivity.Ready && s.state != connectivity.Connecting)
		s.ep.signal()
		return t, false
	}
	if s.ep.removed() {
		if st.ConnectivityState != connectivity.Ready {
			s.shutLocked() // a connection that is lost is not made again
		}
		return t, false
	}
	was := s.state
	s.state, t.state = st.ConnectivityState, st.ConnectivityState
	s.slow = s.slow && s.state == connectivity.Connecting
	if s.state == connectivity.Connecting {
		p.raceLocked(s)
	} else {
		s.endRaceLocked()
	}
	switch s.state {
	case connectivity.Ready:
		t = p.takeReadyLocked(s)
	case connectivity.TransientFailure:
		s.disconnectedLocked()
		s.err = st.ConnectionError
		s.failing.Store(true)
		p.reconnects.attemptFailedLocked(s)
		t.evidence = health.Evidence{Kind: health.ConnectFailed, Err: st.ConnectionError, Detail: "connect"}
	case connectivity.Idle:
		s.disconnectedLocked()
		if was != connectivity.TransientFailure && s.class == Calls { // gRPC omits READY if the server closes it at once
			t.evidence = health.Evidence{Kind: health.Disconnected, Detail: "connection lost"}
			s.lostLocked()
		}
		p.reconnects.reconnectLocked(s)
	default:
	}
	if s.class != Calls || s.state != connectivity.Ready && s.ep.healthEntry().Connections() > 0 {
		t.evidence = health.Evidence{} // another client of the process is connected: the fault is this one's
	}
	t.evidence.At = time.Now()
	return t, true
}

// takeReadyLocked records that the connection is ready, and returns what changes the state of its endpoint.
func (p *policy) takeReadyLocked(s *subConn) takenState {
	t := takenState{state: connectivity.Ready, evidence: health.Evidence{Kind: health.Connected, At: time.Now(), Detail: "connected"}}
	if s.class == Calls {
		before := s.ep.healthEntry().Load()
		t.joined = p.joinLocked(s)
		if before.State == health.Dead && t.joined.To == health.Unknown {
			t.evidence = before.Evidence // it has not served since
		}
		s.ep.healthEntry().AddConnections(1)
	}
	s.withheld.Store(s.class == Calls)
	if s.useful.Swap(false) && !s.foundDead { // answers may come after the server has announced that it closes a connection
		s.brief = 0
	}
	s.unhealthy, s.foundDead = nil, false
	s.ready.Store(true)
	s.made.Add(1)
	if s.failing.Swap(false) || p.reconnects.turns.outage {
		p.reconnects.noteOutageLocked()
		p.reconnects.endPausesLocked(s)
	}
	s.failures, s.due, s.err = 0, time.Time{}, nil
	s.forget()
	return t
}

// errMoving ends a stream whose connection takes no new streams.
var errMoving = status.Error(codes.Unavailable, "the connection is lost, or the server closes it")

// cutStreams ends the streams on the connection.
func (s *subConn) cutStreams(reason error) {
	for _, st := range s.ep.inflight.streamsOn(s) {
		st.attempt.cut(reason)
	}
}

// moveStreams ends the streams of class Streams, which their owners open again. Others stay.
func (s *subConn) moveStreams(reason error) {
	for _, st := range s.ep.inflight.streamsOn(s) {
		if st.attempt.Conn == Streams {
			st.attempt.cut(reason)
		}
	}
}

// close closes the connection, with all work on it. It first takes the connection from pickers, so that nothing new
// begins on it, and cuts each call and stream, so that their owners get the reason, and because the policy cannot
// close connections made without [Credentials].
func (p *policy) close(s *subConn, reason error) {
	p.mu.Lock()
	s.disconnectedLocked()
	s.foundDead = true
	p.mu.Unlock()
	for _, f := range s.ep.inflight.callsOn(s) {
		f.attempt.cut(reason)
	}
	s.cutStreams(reason)
	s.forget()
	if s.conn.close() {
		return
	}
	p.mu.Lock()
	if s.sc != nil {
		s.shutLocked()
		if s.class == Calls && !s.ep.removed() {
			s.lostLocked()
			p.openLocked(s)
		}
	}
	p.mu.Unlock()
	p.publish()
}

// probeConn is the connection of a subConn for probes. Calls on it bypass
// interceptors and do not keep a channel out of idle mode.
type probeConn struct {
	grpc.ClientConnInterface
	s *subConn
}

type probeConnBuilder struct{}

func (probeConnBuilder) Build(cc any) (balancer.Producer, func()) { return cc, func() {} }

// Invoke makes a call as gRPC does, and knows when it is sent.
func (c probeConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	c.s.unsent.Add(1)
	call, err := c.NewStream(ctx, &grpc.StreamDesc{}, method, opts...)
	if err != nil && c.s.isFull() {
		c.s.forget() // the probe was not sent: a missing answer is no evidence
		c.s.ep.serviceProbeSent.Store(nil)
	}
	c.s.unsent.Add(-1)
	if err != nil {
		return err
	}
	if err := call.SendMsg(req); err != nil {
		return err
	}
	return call.RecvMsg(reply)
}

// isFull reports whether a probe waits because the streams on the connection, and calls that take no longer than usual, are
// all that the server allows. It is false where more calls take longer: a frozen server may be what they wait for.
func (s *subConn) isFull() bool {
	if s.unsent.Load() == 0 {
		return false
	}
	calls := s.ep.inflight.callsOn(s)
	late := slices.DeleteFunc(calls, func(c *call) bool {
		usual := c.stat.P99()
		return usual == 0 || time.Since(c.start.Time()) < 3*usual
	})
	return 2*len(late) < len(calls)+len(s.ep.inflight.streamsOn(s))
}
