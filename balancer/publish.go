package balancer

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// publishPause is the least time between two pickers for each hundred endpoints: with their number grow the cost of a
// picker and the number of events that need one.
const publishPause = time.Millisecond

// publish gives gRPC a new picker: at once, or at the end of the pause after the latest one.
func (p *policy) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.publishing {
		return
	}
	now := time.Now()
	if wait := p.nextPublish.Sub(now); wait > 0 {
		p.publishing = true
		time.AfterFunc(wait, func() {
			p.mu.Lock()
			p.publishing, p.nextPublish = false, time.Time{}
			p.mu.Unlock()
			p.publish()
		})
		return
	}
	p.nextPublish = now.Add(time.Duration(len(p.all())/100) * publishPause)
	improved, ejected := p.improved.Swap(false), p.ejected.Swap(false) // before the states are read
	p.reconnects.connectWantedLocked()
	state, err := p.connectivityLocked()
	k := &picker{p: p, err: err, connected: make([]*Endpoint, 0, len(p.all()))}
	p.reconnects.noteOutageLocked()
	for _, ep := range p.all() {
		if ep.conn(Calls).takesCalls() {
			ep.place.Store(int64(len(k.connected)))
			k.connected = append(k.connected, ep)
			ep.refreshLocked()
		}
	}
	k.rank()
	k.findDoubted()
	k.unproven = p.proof.awaitedLocked(k.fit[needWrite])
	k.holdsStreams = p.reconnects.holdsStreamsLocked(len(k.fit[needFull]) > 0 && k.fit[needFull][0].State().Usable(), now)
	k.probesOnWrite = p.proof.due.IsZero() && p.prober.canProbe()
	if was := p.latest.Load(); was == nil || !k.refusesLike(was) {
		p.latest.Store(k)
		p.cc.UpdateState(balancer.State{ConnectivityState: state, Picker: k})
	}
	if ejected && !p.reconnects.turns.outage {
		p.reconnects.reconnectSoonLocked(needSpread)
	}
	if improved {
		p.options().Monitor.NotifyImproved()
		for _, ep := range p.all() {
			ep.signal()
		}
	}
}

// refusesLike reports whether both pickers refuse all calls for the same reason. Each picker wakes all
// waiting calls, so in an outage gRPC gets only one for each reason.
func (k *picker) refusesLike(was *picker) bool {
	return len(k.connected)+len(was.connected) == 0 && k.err.Error() == was.err.Error()
}

// connectWantedLocked connects the endpoints that the strategy wants, in random order: streams go to the first
// connection, so a fixed order would gather most clients' streams on one endpoint. While a lost connection reconnects, no
// other is made in its place. Otherwise servers that close old connections (MaxConnectionAge) would cause one to each
// endpoint.
func (rc *reconnector) connectWantedLocked() {
	wanted := make(map[*Endpoint]bool)
	selective, isSelective := rc.p.strategy().(Selective)
	if isSelective {
		for _, ep := range selective.Wanted(rc.p.all()) {
			wanted[ep] = true
		}
	}
	var missing []*subConn
	for _, ep := range rc.p.all() {
		if !isSelective || wanted[ep] {
			ep.unwanted.Store(false)
			if s := ep.conn(Calls); s.sc == nil {
				missing = append(missing, s)
			}
			continue
		}
		ep.unwanted.Store(true)
		if !ep.hasInFlight() && (!ep.Ready() || !rc.p.prober.canProbe() || !needsProbes(ep.State())) { // probes end a suspicion
			ep.shutLocked()
		}
	}
	if isSelective && len(missing) > 0 && rc.anyReconnectingLocked() {
		time.AfterFunc(fallbackDelay, rc.p.publish)
		return
	}
	for _, n := range rand.Perm(len(missing)) {
		rc.p.openLocked(missing[n])
	}
}

// anyReconnectingLocked reports whether a connection that was lost, or is closed by its server, is reconnecting, and has
// not yet failed, taken fallbackDelay, or been lost more than maxBrief times in a row.
func (rc *reconnector) anyReconnectingLocked() bool {
	return slices.ContainsFunc(rc.p.all(), func(ep *Endpoint) bool {
		s := ep.conn(Calls)
		returns := s.sc != nil && s.made.Load() > 0 && !s.ready.Load() && s.failures == 0 && s.brief <= maxBrief
		return returns && rankedFirst(ep) && time.Since(s.attempted) < fallbackDelay
	})
}

// connectivityLocked returns the state of the ClientConn, and the error of picks while no connection is ready. As with
// gRPC's policies, a failed connection counts as failing until it is established. The error has no gRPC status: gRPC
// would fail calls that wait for a connection with it.
func (p *policy) connectivityLocked() (connectivity.State, error) {
	if len(p.all()) == 0 {
		return connectivity.TransientFailure, p.resolverErr
	}
	var err error
	now, connecting := time.Now(), false
	for _, ep := range p.all() {
		s := ep.conn(Calls)
		switch {
		case s.takesCalls():
			return connectivity.Ready, balancer.ErrNoSubConnAvailable
		case s.ready.Load() && s.unhealthy != nil:
			err = s.unhealthy
		case s.failing.Load():
			err = s.err
		case s.brief > maxBrief && s.waitsLocked(now):
			err = errBrief
		case s.sc != nil:
			connecting = true
		}
	}
	if !connecting {
		return connectivity.TransientFailure, errors.New(cmp.Or(err, errNoConnection).Error())
	}
	return connectivity.Connecting, balancer.ErrNoSubConnAvailable
}

var (
	errBrief = errors.New("connections are lost as soon as they are made")
	// errNoConnection is used where gRPC reports no error of a failed connection.
	errNoConnection = errors.New("no connection could be made")
)
