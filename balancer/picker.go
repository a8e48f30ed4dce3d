package balancer

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/quorate/quorate/health"
)

// need is a call's Need; writes also prefer endpoints that have completed work.
type need uint8

const (
	needFull need = iota
	needLocal
	needWrite

	needs = int(needWrite) + 1
)

func (a *Attempt) need() need {
	switch {
	case a.Need == Local:
		return needLocal
	case a.Write:
		return needWrite
	default:
		return needFull
	}
}

// rank returns how well an endpoint in a state serves a need, 0 the best.
func rank(s health.State, n need) int {
	switch s {
	case health.Serving, health.Unknown:
		return 0
	case health.Slow:
		return 2
	case health.Suspected:
		return 3
	case health.Lagging:
		return 4
	case health.Degraded, health.Restricted:
		if n == needLocal {
			return 2
		}
		return 5
	case health.NotServing:
		return 6
	default:
		return 7
	}
}

// rank returns how well the endpoint serves a need. For local calls, a suspect that has given a sign of life since
// ranks better. For writes, endpoints that have completed work do: a response proves only that the server is alive. So
// do those without a recent verdict.
func (e *Endpoint) rank(n need) int {
	st := e.Health()
	r := rank(st.State, n)
	if n == needLocal && st.State == health.Suspected && !e.healthEntry().AliveSince(st.Since) ||
		n == needWrite && r == 0 && (!e.proven() || e.readmitted()) {
		r++
	}
	return r
}

// readmitted reports whether the endpoint has served for too short a time since the latest verdict.
func (e *Endpoint) readmitted() bool {
	from := e.healthEntry().Load().WritesFrom
	return !from.IsZero() && time.Now().Before(from)
}

// proven reports whether the endpoint has completed work.
func (e *Endpoint) proven() bool { return e.healthEntry().Latest() > 0 }

// picker is a snapshot of the policy. gRPC calls it concurrently, for each attempt.
type picker struct {
	p *policy
	// fit are the connected endpoints that serve a need best, by need.
	fit [needs][]*Endpoint
	// spare is the best endpoint after fit, by need; only where fit is a single one.
	spare [needs]*Endpoint
	// connected are all connected endpoints, and doubted those of them that calls test.
	connected, doubted []*Endpoint
	// unproven is set while no endpoint has completed work yet, and writes wait for that.
	// probesOnWrite is set until the first write, which probes all endpoints that have completed
	// none; probed is set once it has.
	unproven, probesOnWrite bool
	probed                  atomic.Bool
	// holdsStreams is set while streams wait after an outage.
	holdsStreams bool
	// err is why there is no connection.
	err error
}

// rank ranks the connected endpoints.
func (k *picker) rank() {
	for n := range k.fit {
		k.fit[n] = best(k.connected, need(n))
		if len(k.fit[n]) == 1 && len(k.connected) > 1 {
			k.spare[n] = best(without(k.connected, k.fit[n]), need(n))[0]
		}
	}
}

// usable is a connection that calls can use.
type usable struct {
	*subConn
	sc balancer.SubConn
}

// refreshLocked shows pickers which connections can be used.
func (e *Endpoint) refreshLocked() {
	for class, s := range e.connections() {
		now, old := usable{s, s.sc}, e.usable[class].Load()
		if s.ready.Load() && (old == nil || *old != now) {
			e.usable[class].Store(&now)
		}
	}
}

// best returns the endpoints of the best rank, and of these the ones of the best priority.
func best(eps []*Endpoint, n need) []*Endpoint {
	var kept []*Endpoint
	lowest, first := 0, uint32(0)
	for _, ep := range eps {
		r, priority := ep.rank(n), ep.Priority()
		worse := cmp.Or(cmp.Compare(r, lowest), cmp.Compare(priority, first))
		if len(kept) > 0 && worse > 0 {
			continue
		}
		if len(kept) > 0 && worse < 0 {
			kept = nil
		}
		kept, lowest, first = append(kept, ep), r, priority
	}
	return kept
}

// some returns n endpoints, in their order from a random one; all if there are no more.
func some(eps []*Endpoint, n int) []*Endpoint {
	if len(eps) <= n {
		return eps
	}
	begin := rand.N(len(eps) - n + 1)
	return eps[begin : begin+n]
}

// without returns eps without avoid.
func without(eps, avoid []*Endpoint) []*Endpoint {
	return slices.DeleteFunc(slices.Clone(eps), func(ep *Endpoint) bool { return slices.Contains(avoid, ep) })
}

// others returns the candidates for the strategy where endpoints are to be avoided: the best
// others, even of a lower rank, but no write goes where it would be cut; if there is none, the fit ones. It
// looks at no more than maxOthers besides these.
func (k *picker) others(a *Attempt, fit []*Endpoint) []*Endpoint {
	if others := without(some(fit, maxOthers+len(a.Avoid)), a.Avoid); len(others) > 0 {
		return others
	}
	others := best(without(some(k.connected, maxOthers+len(a.Avoid)), a.Avoid), a.need())
	serves := len(others) > 0 && (!a.Write || rank(others[0].State(), needWrite) <= rank(health.Suspected, needWrite))
	if serves || a.AvoidStrictly {
		return others
	}
	return fit
}

// Pick implements gRPC's balancer.Picker.
func (k *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a := AttemptFrom(info.Ctx)
	if a == nil {
		a = new(Attempt)
	}
	if a.flags.set.Load()&flagRefused != 0 {
		return balancer.PickResult{}, errRefused
	}
	call := a.info(info.FullMethodName)
	s, sc, err := k.choose(&call, a)
	if err != nil {
		a.NotPicked()
		return balancer.PickResult{}, err
	}
	a.conn.Store(s)
	c := k.p.begin(info.Ctx, s, &call, a)
	if o := k.p.options(); o.observesCalls {
		o.Events.Picked(s.ep, call)
	}
	if err := a.Picked(s.ep); err != nil {
		c.end(balancer.DoneInfo{})
		return balancer.PickResult{}, err
	}
	if !s.ep.State().Usable() {
		s.ep.signal()
	}
	return balancer.PickResult{SubConn: sc, Done: c.whenDone()}, nil
}

// choose returns the connection for an attempt, or the pick error.
func (k *picker) choose(call *Call, a *Attempt) (*subConn, balancer.SubConn, error) {
	fit := k.fit[a.need()]
	if len(a.Avoid) > 0 {
		fit = k.others(a, fit)
	}
	switch {
	case len(fit) == 0 && a.AvoidStrictly && len(k.connected) > 0:
		return nil, nil, errNoOther
	case len(fit) == 0:
		return nil, nil, k.err
	case k.holdsStreams && call.Conn == Streams && call.Need == Full:
		return nil, nil, balancer.ErrNoSubConnAvailable
	case k.unproven && a.Write:
		k.p.proof.prove()
		return nil, nil, balancer.ErrNoSubConnAvailable
	case k.probesOnWrite && a.Write && k.probed.CompareAndSwap(false, true):
		k.p.proof.prove()
	}
	class := call.Conn
	switch {
	case class == Streams && (a.Conn == Calls || !k.p.heavy.Load()):
		class = Calls
	case class == Calls && a.Large:
		class = Bulk
	}
	if class != Calls {
		// Prefer an endpoint that already has a connection of the class: fewer connections are needed.
		var open []*Endpoint
		for _, ep := range fit {
			if ep.usable[class].Load() != nil {
				open = append(open, ep)
			}
		}
		if len(open) > 0 {
			return k.p.strategy().Pick(*call, open).picked(class)
		}
		if err := k.p.openClass(*call, class, fit); call.Conn == Bulk {
			return nil, nil, err
		}
		// A stream, or a large call, goes on over the connection for calls meanwhile.
	}
	var ep *Endpoint
	if len(k.doubted) > 0 {
		ep = k.toTest(a)
	}
	if ep == nil {
		ep = k.p.strategy().Pick(*call, fit)
	}
	if s := ep.usable[Calls].Load(); s != nil && s.probeSent.Load() == nil {
		return s.subConn, s.sc, nil // the usual case
	}
	if ep.isSilent() {
		if fit = k.p.heard(fit, a.Write); len(fit) == 0 {
			return nil, nil, balancer.ErrNoSubConnAvailable
		}
		ep = k.p.strategy().Pick(*call, fit)
	}
	return ep.picked(Calls)
}

// picked returns the connection of the class. gRPC waits for the next picker if it was lost
// since the present one.
func (e *Endpoint) picked(class ConnClass) (*subConn, balancer.SubConn, error) {
	s := e.usable[class].Load()
	if s == nil {
		return nil, nil, balancer.ErrNoSubConnAvailable
	}
	return s.subConn, s.sc, nil
}

// openClass connects one of the endpoints for the class, and returns the pick error until it is
// ready.
func (p *policy) openClass(call Call, class ConnClass, fit []*Endpoint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return balancer.ErrNoSubConnAvailable
	}
	now, err := time.Now(), errNoConnection
	candidates := make([]*Endpoint, 0, len(fit))
	for _, ep := range fit {
		s := ep.conn(class)
		switch {
		case ep.removed():
			// It was removed after the picker was made.
		case s.slow:
			err = balancer.ErrNoSubConnAvailable // it may still connect, but another may be faster
		case s.state == connectivity.Ready, s.state == connectivity.Connecting:
			return balancer.ErrNoSubConnAvailable // it is about to connect, or its loss is about to be reported
		case s.failing.Load() && (s.state == connectivity.TransientFailure || s.waitsLocked(now)):
			err = errors.New(cmp.Or(s.err, errNoConnection).Error()) // without a gRPC status, see connectivityLocked
		default:
			candidates = append(candidates, ep)
		}
	}
	if len(candidates) == 0 {
		return err
	}
	s := p.strategy().Pick(call, candidates).conn(class)
	if s.sc == nil {
		p.openLocked(s)
	} else {
		p.connectLocked(s)
	}
	if s.sc != nil {
		s.state = connectivity.Connecting
		p.reconnects.expectLocked(s)
	}
	return balancer.ErrNoSubConnAvailable
}
