package balancer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// line is the connection to an endpoint for one lane, through all its reconnections.
// It is guarded by the policy's lock, but for what has a synchronisation of its own.
type line struct {
	ep   *Endpoint
	lane Lane

	sc    balancer.SubConn // nil until a connection is wanted
	state connectivity.State
	// renewed is set while failing, once the backoff was cut short.
	renewed bool
	// late is set while connecting, once that has taken too long to be waited for.
	late bool
	err  error // of the latest failed attempt

	// ready and failing are for those who do not have the lock: whether there is a
	// connection, and whether the latest attempt to make one failed.
	ready, failing atomic.Bool

	socket socket
	// heard is when the server was last heard on the line, in nanoseconds since the epoch.
	heard atomic.Int64
	// received counts the bytes that arrived, arrived is when the latest did, and known how
	// many there were when the server was last heard.
	received, arrived, known atomic.Int64
	// missed counts the rounds in a row in which the line alone was silent. It belongs to
	// the inquiry.
	missed int
}

func (l *line) hear(now time.Time) {
	l.heard.Store(now.UnixNano())
	l.known.Store(l.received.Load())
}

func (l *line) heardSince(t time.Time) bool { return l.heard.Load() >= t.UnixNano() }

// open gives the line a connection. It needs the policy's lock.
func (p *policy) open(l *line) {
	if l.sc != nil {
		return
	}
	var sc balancer.SubConn
	sc, err := p.cc.NewSubConn(addressesOf(l, l.ep.addresses), balancer.NewSubConnOptions{ //nolint:staticcheck // an endpoint with two addresses is one with two families, tried in turn
		StateListener: func(s balancer.SubConnState) { p.lineChanged(l, sc, s) },
	})
	if err != nil {
		l.err = err
		l.failing.Store(true)
		return
	}
	l.sc, l.state = sc, connectivity.Idle
	sc.Connect()
}

// expect sees to it that nobody waits for a connection that is not made within the time of
// the probes that would find the endpoint dead: streams go elsewhere then, and the endpoint
// becomes a suspect. It needs the policy's lock.
func (p *policy) expect(l *line) {
	sc, patience := l.sc, health.MissesToDead*p.probeRound()
	due := time.Now().Add(patience)
	time.AfterFunc(patience, func() {
		now := time.Now()
		if !p.markLate(l, sc, now.Sub(due)) {
			return
		}
		p.publish()
		if p.options().Prober != nil {
			p.suspect(l.ep, now, fmt.Sprintf("not connected within %v", patience.Round(time.Millisecond)))
		}
	})
}

// markLate notes that a connection that was expected has not come about, if it has not:
// by is how long ago it was due.
func (p *policy) markLate(l *line, sc balancer.SubConn, by time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || l.sc != sc || l.state != connectivity.Connecting || l.late {
		return false
	}
	if by > starved {
		p.expect(l) // what is waited for may be here, and unread
		return false
	}
	l.late = true
	return true
}

// shut ends the line's connection gracefully: streams on it may go on. It needs the
// policy's lock.
func (l *line) shut() {
	if l.sc == nil {
		return
	}
	l.sc.Shutdown()
	l.sc, l.state, l.renewed, l.late, l.err = nil, connectivity.Idle, false, false, nil
	l.ready.Store(false)
	l.failing.Store(false)
}

// lineChanged is gRPC's notice of a connection's new state.
func (p *policy) lineChanged(l *line, sc balancer.SubConn, s balancer.SubConnState) {
	evidence, changed := p.noteLine(l, sc, s)
	if !changed {
		return
	}
	if l.lane == Calls {
		for _, ev := range evidence {
			p.note(l.ep, ev)
		}
	}
	if s.ConnectivityState == connectivity.Ready {
		l.hear(time.Now())
		p.connected(l)
	}
	p.publish()
	if l.lane == Streams && s.ConnectivityState != connectivity.Ready {
		l.leave()
	}
}

// errLeaving is why a stream has to move whose connection takes no others.
var errLeaving = status.Error(codes.Unavailable, "the connection is lost, or the server closes it")

// leave has the streams on the line end, once there is no connection for new ones. Either
// it is lost, and they have ended, or the server is leaving (GOAWAY): it would let them go
// on until it is gone itself. Bulk may come to its end before that, and is left alone.
func (l *line) leave() {
	_, flows := l.ep.on(l)
	cutAll(flows, errLeaving)
}

// noteLine takes a connection's new state in, and returns what it shows of the endpoint.
func (p *policy) noteLine(l *line, sc balancer.SubConn, s balancer.SubConnState) ([]health.Evidence, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.sc == nil || l.sc != sc || p.closed {
		return nil, false // of a connection that was given up
	}
	was := l.state
	l.state = s.ConnectivityState
	l.late = l.late && l.state == connectivity.Connecting
	l.ready.Store(l.state == connectivity.Ready)
	var evidence []health.Evidence
	now := time.Now()
	switch s.ConnectivityState {
	case connectivity.Ready:
		wasFailing := l.failing.Swap(false)
		l.renewed, l.err = false, nil
		evidence = append(evidence, health.Evidence{Kind: health.Connected, At: now})
		if wasFailing {
			p.renewOthers(l)
		}
	case connectivity.TransientFailure:
		l.err = s.ConnectionError
		l.failing.Store(true)
		if l.lane == Calls {
			p.hurry(l)
		}
		evidence = append(evidence, health.Evidence{Kind: health.ConnectFailed, At: now, Err: s.ConnectionError})
	case connectivity.Idle:
		if was == connectivity.Ready {
			evidence = append(evidence, health.Evidence{Kind: health.Disconnected, At: now})
		}
		if l.lane == Calls {
			sc.Connect() // the others connect when they are asked for
		}
	default:
	}
	return evidence, true
}

// renewOthers has other endpoints tried at once that wait for the end of their backoff:
// what kept l from connecting, and them perhaps as well, has passed. It does so once for
// each failing connection. It needs the lock.
func (p *policy) renewOthers(l *line) {
	for _, ep := range p.endpoints {
		for _, other := range ep.lines {
			if other == l || other.state != connectivity.TransientFailure || other.renewed {
				continue
			}
			other.renewed = true
			p.reopen(other)
		}
	}
}

// probeConn is the producer that lends a line's connection to a probe. Calls on it
// bypass interceptors, and gRPC does not keep a channel awake for them.
type probeConn struct{ grpc.ClientConnInterface }

type probeConnBuilder struct{}

func (probeConnBuilder) Build(cc any) (balancer.Producer, func()) {
	return probeConn{cc.(grpc.ClientConnInterface)}, func() {}
}

// probe asks the server at the other end of the line, and tells what it says.
func (l *line) probe(ctx context.Context, sc balancer.SubConn, prober health.Prober, tell func(health.Report)) {
	producer, done := sc.GetOrBuildProducer(probeConnBuilder{})
	defer done()
	prober.Probe(ctx, producer.(probeConn), tell)
}
