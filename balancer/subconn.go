package balancer

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// subConn is the connection of one class to an endpoint, through all its reconnections. It
// is guarded by the policy's lock, but for what has a synchronization of its own.
type subConn struct {
	ep    *Endpoint
	class ConnClass

	sc    balancer.SubConn // nil while no connection is wanted
	state connectivity.State
	// renewed is set while failing, once the backoff was cut short.
	renewed bool
	// failingSince is since when attempts to connect have failed, zero if the latest did not.
	failingSince time.Time
	// slow is set while connecting, once that takes too long to be waited for.
	slow bool
	err  error // of the latest failed attempt

	// ready and failing are for those who do not have the lock: whether there is a
	// connection, and whether the latest attempt to make one failed.
	ready, failing atomic.Bool

	conn netConn
	// heard is when the server was last heard on the connection. asked is when it was first
	// asked for anything since then, and askedLife when for a sign of life.
	heard            health.Stamp
	asked, askedLife atomic.Pointer[time.Time]
	// alive is since when the endpoint has been seen to be alive by other means, while the
	// connection is silent; zero if it has not. It belongs to the investigation.
	alive time.Time
}

// hear notes a message of the server, which is complete.
func (s *subConn) hear(now time.Time) {
	s.heard.Set(now)
	s.conn.messageComplete()
	s.ep.known().Alive(now)
}

// ask notes a question.
func (s *subConn) ask(q question, now time.Time) {
	if s.unanswered(&s.asked, now) == 0 {
		s.asked.Store(&now)
	}
	if q != forService && s.unanswered(&s.askedLife, now) == 0 {
		s.askedLife.Store(&now)
	}
}

// unanswered returns how long a question has been unanswered, 0 if none is.
func (s *subConn) unanswered(question *atomic.Pointer[time.Time], now time.Time) time.Duration {
	asked := question.Load()
	if asked == nil || s.heard.After(*asked) {
		return 0
	}
	return max(now.Sub(*asked), 1)
}

// lifePatience is how long the answer to a question for a sign of life may take: a round of
// probes.
const lifePatience = probeRound - probeRound/10

// silentFor returns how long nothing has been heard since the first question, 0 if it was
// answered. Only a question for a sign of life makes it a silence: an endpoint that is
// asked for service alone may be stalled.
func (s *subConn) silentFor(now time.Time) time.Duration {
	if s.unanswered(&s.askedLife, now) < lifePatience {
		return 0
	}
	return s.unanswered(&s.asked, now)
}

// forget forgets the questions.
func (s *subConn) forget() {
	s.asked.Store(nil)
	s.askedLife.Store(nil)
}

// open gives the subConn a connection. It needs the policy's lock.
func (p *policy) open(s *subConn) {
	if s.sc != nil {
		return
	}
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
	sc.Connect()
}

// shut ends the connection gracefully: streams on it may go on. It needs the policy's lock.
func (s *subConn) shut() {
	if s.sc == nil {
		return
	}
	s.sc.Shutdown()
	s.disconnected()
	s.sc, s.state, s.renewed, s.slow, s.err = nil, connectivity.Idle, false, false, nil
	s.failingSince = time.Time{}
	s.failing.Store(false)
}

// disconnected notes that there is no connection. It needs the policy's lock.
func (s *subConn) disconnected() {
	if s.ready.Swap(false) && s.class == Calls {
		s.ep.known().AddConnections(-1)
	}
}

// connChanged is gRPC's notice of a connection's new state.
func (p *policy) connChanged(s *subConn, sc balancer.SubConn, st balancer.SubConnState) {
	taken, ok := p.takeState(s, sc, st)
	if !ok {
		return
	}
	now := time.Now()
	if taken.state == connectivity.Ready {
		s.hear(now)
	}
	if taken.joined.From != taken.joined.To {
		p.changed(s.ep, taken.joined)
	}
	if taken.evidence.Detail != "" {
		p.note(s.ep, taken.evidence)
	}
	p.publish()
	if taken.state == connectivity.Ready {
		p.connected(s)
	} else if s.class != Bulk {
		s.moveStreams()
	}
}

// takenState is what a new state of a connection brings.
type takenState struct {
	state    connectivity.State
	evidence health.Evidence // without a Detail it is none
	joined   health.Change   // by joining the shared table
}

// takeState takes a connection's new state in. It reports false for one that was given up.
func (p *policy) takeState(s *subConn, sc balancer.SubConn, st balancer.SubConnState) (t takenState, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.sc == nil || s.sc != sc || p.closed {
		return t, false
	}
	was := s.state
	s.state, t.state = st.ConnectivityState, st.ConnectivityState
	s.slow = s.slow && s.state == connectivity.Connecting
	switch s.state {
	case connectivity.Ready:
		before := s.ep.known().Load()
		t.joined = p.takeReady(s)
		t.evidence = health.Evidence{Kind: health.Connected, Detail: "connected"}
		if before.State == health.Dead && t.joined.To == health.Unknown && s.class == Calls {
			t.evidence = before.Evidence // nobody has seen it serve since
		}
	case connectivity.TransientFailure:
		s.disconnected()
		s.err = st.ConnectionError
		s.failing.Store(true)
		if s.failingSince.IsZero() {
			s.failingSince = time.Now()
		}
		p.reconnectSoon(s)
		t.evidence = health.Evidence{Kind: health.ConnectFailed, Err: st.ConnectionError, Detail: "connect"}
		if s.ep.known().Connections() > 0 {
			t.evidence.Kind = health.Suspicious // another connection of this process holds
		}
	case connectivity.Idle:
		s.disconnected()
		if was == connectivity.Ready {
			t.evidence = health.Evidence{Kind: health.Disconnected, Detail: "connection lost"}
		}
		if s.class == Calls {
			p.reconnect(s)
		}
	default:
	}
	if s.class != Calls {
		t.evidence = health.Evidence{}
	}
	t.evidence.At = time.Now()
	return t, true
}

// takeReady needs the policy's lock.
func (p *policy) takeReady(s *subConn) (joined health.Change) {
	if s.class == Calls {
		joined = p.join(s)
		s.ep.known().AddConnections(1)
	}
	s.ready.Store(true)
	if s.failing.Swap(false) {
		p.reconnectOthers(s)
	}
	s.renewed, s.failingSince, s.err = false, time.Time{}, nil
	s.forget()
	return joined
}

// errMoving is why a stream has to move whose connection takes no others.
var errMoving = status.Error(codes.Unavailable, "the connection is lost, or the server closes it")

// moveStreams ends the streams on the connection, once there is none for new ones. Either
// it is lost, and they have ended, or the server shuts down (GOAWAY): it would let them go
// on until it has stopped itself. Bulk transfers may end before that, and are left alone.
func (s *subConn) moveStreams() {
	for _, st := range s.ep.inflight.streamsOn(s) {
		st.cut(errMoving)
	}
}

// probeConn is the producer that lends a connection to a probe. Calls on it bypass
// interceptors, and gRPC does not keep a channel awake for them.
type probeConn struct{ grpc.ClientConnInterface }

type probeConnBuilder struct{}

func (probeConnBuilder) Build(cc any) (balancer.Producer, func()) {
	return probeConn{cc.(grpc.ClientConnInterface)}, func() {}
}

// close closes the connection under what is on it. The owners of that are told before, so
// that they know why it ends, and for connections that the policy does not know.
func (p *policy) close(s *subConn, reason error) {
	for _, f := range s.ep.inflight.callsOn(s) {
		f.attempt.cut(reason)
	}
	for _, st := range s.ep.inflight.streamsOn(s) {
		st.cut(reason)
	}
	s.forget()
	if s.conn.close() {
		return
	}
	p.mu.Lock()
	if s.sc != nil {
		s.shut()
		if s.class == Calls && !s.ep.removed() {
			p.open(s)
		}
	}
	p.mu.Unlock()
	p.publish()
}
