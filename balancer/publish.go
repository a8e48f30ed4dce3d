package balancer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/health"
)

// publishPause is the pause between two pickers for each hundred endpoints: what a picker costs
// grows with their number, and so do the events that call for one.
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
	p.nextPublish = now.Add(time.Duration(len(p.endpoints)/100) * publishPause)
	improved, ejected := p.improved.Swap(false), p.ejected.Swap(false) // before the states are read
	p.connectWantedLocked()
	k := &picker{p: p, connected: make([]*Endpoint, 0, len(p.endpoints))}
	state, err := p.connectivityLocked()
	p.noteOutageLocked()
	for _, ep := range p.endpoints {
		if ep.conn(Calls).takesCalls() {
			ep.place.Store(int64(len(k.connected)))
			k.connected = append(k.connected, ep)
			ep.refreshLocked()
		}
	}
	k.rank()
	k.findDoubted()
	k.unproven = p.awaitsProofLocked(k.fit[needWrite])
	k.holdsStreams = p.holdsStreamsLocked(len(k.fit[needFull]) > 0 && k.fit[needFull][0].State().Usable(), now)
	k.unseen = p.proofDue.IsZero() && p.canProbe()
	k.err = balancer.ErrNoSubConnAvailable
	if state == connectivity.TransientFailure {
		k.err = err
	}
	if was := p.latest.Load(); was == nil || !k.refusesLike(was) {
		p.latest.Store(k)
		p.cc.UpdateState(balancer.State{ConnectivityState: state, Picker: k})
	}
	if ejected && !p.turns.outage {
		p.reconnectSoonLocked(needSpread)
	}
	if improved {
		p.options().Monitor.NotifyImproved()
		for _, ep := range p.endpoints {
			ep.signal()
		}
	}
}

// refusesLike reports whether both pickers refuse all calls for the same reason. In an outage, each that gRPC
// gets wakes all calls that wait.
func (k *picker) refusesLike(was *picker) bool {
	return len(k.connected)+len(was.connected) == 0 && k.err == was.err //nolint:errorlint // the same failure
}

// proofPatience is how long the first write of a client waits for an endpoint that has
// completed work.
const proofPatience = 500 * time.Millisecond

// awaitsProofLocked reports whether writes wait: the best endpoints have no evidence yet, there
// are several, and they can be probed.
func (p *policy) awaitsProofLocked(fit []*Endpoint) bool {
	if len(fit) == 0 || p.proven || !p.canProbe() {
		return false
	}
	if rank(fit[0].State(), needWrite) != 0 || slices.ContainsFunc(fit, (*Endpoint).proven) {
		p.proven = true
		return false
	}
	return p.proofDue.IsZero() || time.Now().Before(p.proofDue)
}

// proofWanted reports whether there are writes and the endpoint has completed no work:
// without a service probe it would never get a write.
func (p *policy) proofWanted(ep *Endpoint) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.proofDue.IsZero() && !ep.proven()
}

// completed records that the endpoint has completed work over the connection. Writes may wait for the first.
func (p *policy) completed(s *subConn, start, end time.Time) {
	first := s.ep.known().Latest() == 0
	s.completed.Set(start)
	s.ep.known().Completed(start, end)
	if first {
		p.publish()
	}
}

// prove sends, for the first write, service probes to endpoints that may work and have
// completed nothing yet. Endpoints that are not connected are probed once they are.
func (p *policy) prove() {
	p.mu.Lock()
	asked := !p.proofDue.IsZero()
	if !asked {
		p.proofDue = time.Now().Add(proofPatience)
		time.AfterFunc(proofPatience, p.publish)
	}
	p.mu.Unlock()
	if asked {
		return
	}
	for _, ep := range p.all() {
		if rank(ep.State(), needWrite) == 0 && !ep.proven() {
			p.askForProof(ep.conn(Calls))
		}
	}
}

// askForProof sends a service probe, unless another client of the process sent one within
// proofPatience: the answer counts for all.
func (p *policy) askForProof(s *subConn) {
	now := time.Now()
	if !s.ep.known().AskedSince(health.ForProof, now.Add(-proofPatience)) && p.ask(s, forService, nil) {
		s.ep.known().Asked(health.ForProof, now)
	}
}

// connectWantedLocked connects the endpoints that the strategy wants, in random order. In a
// fixed order the streams of most clients would gather on the first endpoint, since
// streams go to the first connection.
func (p *policy) connectWantedLocked() {
	wanted := make(map[*Endpoint]bool)
	selective, isSelective := p.strategy().(Selective)
	if isSelective {
		for _, ep := range selective.Wanted(p.endpoints) {
			wanted[ep] = true
		}
	}
	var missing []*subConn
	defer func() {
		for _, n := range rand.Perm(len(missing)) {
			p.openLocked(missing[n])
		}
	}()
	for _, ep := range p.endpoints {
		if !isSelective || wanted[ep] {
			ep.unwanted.Store(false)
			if s := ep.conn(Calls); s.sc == nil {
				missing = append(missing, s)
			}
			continue
		}
		if ep.unwanted.Store(true); ep.busy() {
			continue // until nothing is in flight: a suspect must be found dead, and its calls freed
		}
		shutAll(ep)
	}
}

// connectivityLocked returns the state of the ClientConn, and the error if it is failing. A
// failed connection counts as failing until it is established.
func (p *policy) connectivityLocked() (connectivity.State, error) {
	if len(p.endpoints) == 0 {
		return connectivity.TransientFailure, p.resolving
	}
	var err error
	failing, wanted := 0, 0
	for _, ep := range p.endpoints {
		s := ep.conn(Calls)
		switch {
		case s.takesCalls():
			return connectivity.Ready, nil
		case s.ready.Load() && s.unhealthy != nil:
			failing++
			wanted++
			err = s.unhealthy
		case s.failing.Load():
			failing++
			wanted++
			err = s.err
		case s.sc != nil:
			wanted++
		}
	}
	if failing == wanted {
		if err == nil {
			err = errNoConnection
		}
		return connectivity.TransientFailure, err
	}
	return connectivity.Connecting, nil
}

// errNoConnection is used where gRPC reports no error of a failed connection.
var errNoConnection = errors.New("no connection could be made")
