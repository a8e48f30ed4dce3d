package balancer

import (
	"errors"
	"math/rand/v2"
	"slices"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/health"
)

// picker is what the policy knew at one moment. gRPC asks it, concurrently, for the
// connection of each attempt.
type picker struct {
	p *policy
	// fit are the connected endpoints that serve a need best, by need.
	fit [needs][]*Endpoint
	// connected are all connected endpoints.
	connected []*Endpoint
	// lines are those connections of the connected endpoints that can be used.
	lines map[*Endpoint]*[lanes]balancer.SubConn
	// err is why there is no connection.
	err error
}

// rank says how well an endpoint in a state serves a need, 0 the best.
func rank(s health.State, need Need) int {
	switch s {
	case health.Unknown, health.Serving:
		return 0
	case health.Slow:
		return 1
	case health.Suspected:
		return 2
	case health.Lagging:
		return 3
	case health.NoLeader, health.Learner:
		if need == Local {
			return 1
		}
		return 4
	case health.NotServing:
		return 5
	default:
		return 6
	}
}

// publish gives gRPC a picker that knows the present.
func (p *policy) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.strategy == nil {
		return
	}
	p.connectWanted()
	k := &picker{p: p, lines: make(map[*Endpoint]*[lanes]balancer.SubConn)}
	state, err := p.connectivity()
	p.darken(state)
	for _, ep := range p.endpoints {
		if !ep.lines[Calls].ready.Load() {
			continue
		}
		k.connected = append(k.connected, ep)
		k.lines[ep] = ep.usable()
	}
	for need := range k.fit {
		k.fit[need] = best(k.connected, Need(need))
	}
	k.err = balancer.ErrNoSubConnAvailable
	if state == connectivity.TransientFailure {
		k.err = err
	}
	p.cc.UpdateState(balancer.State{ConnectivityState: state, Picker: k})
}

// connectWanted connects the endpoints that the strategy wants, and no others, in random
// order: the first stream goes where there is a connection, and others follow it there, so
// that most streams of all clients would be on the endpoint that is named first. It needs
// the lock.
func (p *policy) connectWanted() {
	wanted := p.endpoints
	if s, ok := p.strategy.(Selective); ok {
		wanted = s.Wanted(p.endpoints)
	}
	for _, n := range rand.Perm(len(p.endpoints)) {
		ep := p.endpoints[n]
		if slices.Contains(wanted, ep) {
			ep.unwanted.Store(false)
			p.open(ep.lines[Calls])
			continue
		}
		if ep.unwanted.Store(true); ep.busy() {
			continue // until nothing is under way: a suspect must be found dead, and its calls freed
		}
		for _, l := range ep.lines {
			l.shut()
		}
	}
}

// connectivity returns the state of the ClientConn, and why it fails if it does. A
// connection that failed counts as failing until it is established. It needs the lock.
func (p *policy) connectivity() (connectivity.State, error) {
	if len(p.endpoints) == 0 {
		return connectivity.TransientFailure, p.resolving
	}
	var err error
	failing, wanted := 0, 0
	for _, ep := range p.endpoints {
		l := ep.lines[Calls]
		switch {
		case l.ready.Load():
			return connectivity.Ready, nil
		case l.failing.Load():
			failing++
			wanted++
			err = l.err
		case l.sc != nil:
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

// errNoConnection is shown where gRPC gives no reason why it could not connect.
var errNoConnection = errors.New("no connection could be made")

// usable returns the endpoint's connections that can be used. It needs the policy's lock.
func (e *Endpoint) usable() *[lanes]balancer.SubConn {
	scs := new([lanes]balancer.SubConn)
	for lane, l := range e.lines {
		if l.ready.Load() {
			scs[lane] = l.sc
		}
	}
	return scs
}

// best returns the endpoints of the best rank that there is.
func best(eps []*Endpoint, need Need) []*Endpoint {
	var kept []*Endpoint
	lowest := 0
	for _, ep := range eps {
		r := rank(ep.State(), need)
		if len(kept) > 0 && r > lowest {
			continue
		}
		if len(kept) > 0 && r < lowest {
			kept = nil
		}
		kept, lowest = append(kept, ep), r
	}
	return kept
}

// without returns the endpoints that are not to be avoided.
func without(eps, avoid []*Endpoint) []*Endpoint {
	return slices.DeleteFunc(slices.Clone(eps), func(ep *Endpoint) bool { return slices.Contains(avoid, ep) })
}

// choice returns the endpoints among which the strategy may choose: the fittest that are
// not to be avoided, which may be less fit, and if all are, the fittest.
func (k *picker) choice(a *Attempt) []*Endpoint {
	fit := k.fit[a.Need]
	if len(a.Avoid) == 0 {
		return fit
	}
	if others := without(fit, a.Avoid); len(others) > 0 {
		return others
	}
	if others := best(without(k.connected, a.Avoid), a.Need); len(others) > 0 {
		return others
	}
	return fit
}

// Pick implements gRPC's balancer.Picker.
func (k *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a := attemptFrom(info.Ctx)
	call := Call{Method: info.FullMethodName, Need: a.Need, Lane: a.Lane, Class: a.Class}
	if call.Class == "" {
		call.Class = call.Method
	}
	ep, sc, err := k.choose(call, a)
	if err != nil {
		if a.Observer != nil {
			a.Observer.NotPicked()
		}
		return balancer.PickResult{}, err
	}
	f := k.p.begin(info.Ctx, ep.lines[call.Lane], call, a)
	if a.Observer != nil {
		if err := a.Observer.Picked(ep); err != nil {
			f.end(balancer.DoneInfo{})
			return balancer.PickResult{}, err
		}
	}
	k.p.options().Events.Picked(ep, call)
	return balancer.PickResult{SubConn: sc, Done: f.end}, nil
}

func (k *picker) choose(call Call, a *Attempt) (*Endpoint, balancer.SubConn, error) {
	fit := k.choice(a)
	if len(fit) == 0 {
		return nil, nil, k.err
	}
	if call.Lane == Calls {
		ep := k.p.strategy.Pick(call, fit)
		return ep, k.lines[ep][Calls], nil
	}
	// Of the lanes with connections of their own, those that have one are preferred: a
	// client needs no more of them than it has streams in different places.
	var open []*Endpoint
	for _, ep := range fit {
		if k.lines[ep][call.Lane] != nil {
			open = append(open, ep)
		}
	}
	if len(open) == 0 {
		return nil, nil, k.p.openLane(call, fit)
	}
	ep := k.p.strategy.Pick(call, open)
	return ep, k.lines[ep][call.Lane], nil
}

// openLane sees to it that one of the endpoints has a connection for the lane of a call,
// and returns what gRPC is told meanwhile.
func (p *policy) openLane(call Call, fit []*Endpoint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return balancer.ErrNoSubConnAvailable
	}
	var err error
	candidates := make([]*Endpoint, 0, len(fit))
	for _, ep := range fit {
		l := ep.lines[call.Lane]
		switch {
		case ep.ctx.Err() != nil:
			// It was removed after the picker was made.
		case l.late:
			err = balancer.ErrNoSubConnAvailable // it may still come, but another may come sooner
		case l.ready.Load(), l.state == connectivity.Connecting:
			return balancer.ErrNoSubConnAvailable // it is on its way
		case l.failing.Load() && l.state == connectivity.TransientFailure:
			err = l.err // it is waited for before it is tried again
		default:
			candidates = append(candidates, ep)
		}
	}
	if len(candidates) == 0 {
		if err == nil {
			err = errNoConnection
		}
		return err
	}
	l := p.strategy.Pick(call, candidates).lines[call.Lane]
	if l.sc != nil {
		l.sc.Connect()
	}
	p.open(l)
	if l.sc != nil {
		l.state = connectivity.Connecting
		p.expect(l)
	}
	return balancer.ErrNoSubConnAvailable
}
