// Package pinned is the strategy "pinned": all calls go to one endpoint until there is a
// [Reason] to change it. A client then sees the state of one server only, servers have
// few connections, or few busy ones, and server-side caches for the client stay useful.
//
// It has two forms, after the two generations of etcd's client that worked like this:
//
//   - "race", the default, like clientv3-grpc1.7: it races to connect to all endpoints,
//     keeps the first that is connected and fit, and drops the others. One connection,
//     and all of them for as long as a race lasts. A change of endpoint costs the time
//     that it takes to connect. A connection that is lost, or that its server closes,
//     is made again; the race begins if that fails, takes 0.25 s, or does not last.
//   - "first_of_all", as clientv3-grpc1.0: it stays connected to all endpoints and uses
//     the first that was fit. A change of endpoint costs nothing.
//
// A service config chooses one:
//
//	{"loadBalancingConfig": [{"quorate_pinned": {"form": "race"}}]}
//
// Where failed calls eject endpoints ([balancer.Options].Classify is nil), single calls also go to an ejected one that is
// connected, and test it.
//
// [Pin] reports the [Reason] of the latest change. An unpinned endpoint can be pinned
// again as soon as the policy finds it fit: there is no list of bad endpoints and no
// penalty time. The pin does not return to an endpoint just because it has recovered.
//
// Streams stay on the endpoint on which they were opened, until they end or it can no
// longer serve them.
//
// An endpoint of a worse priority ([balancer.SetPriority]) wins a race only if no better one can.
// With "first_of_all" the pin moves to an endpoint of a better priority as soon as one is fit.
//
// A partly usable endpoint, such as a member without a leader, which serves serializable
// reads, is used for such calls until another one is pinned.
//
// Do not use it where load matters: one endpoint carries all calls of a client, and a
// restarted endpoint gets no clients back until another one fails. For few clients with
// many calls each, use round_robin or p2c. With "race" the policy has no second endpoint
// to compare with or to hedge to: it detects faults by silence and probes alone.
package pinned

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// Form is one of the two ways to pin an endpoint.
type Form string

const (
	// Race connects to all, keeps the first, and drops the others. It is the default.
	Race Form = "race"
	// FirstOfAll stays connected to all and uses one.
	FirstOfAll Form = "first_of_all"
)

// Config is the strategy's part of a service config.
type Config struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	// Form is Race if empty.
	Form Form `json:"form"`
}

// Pin is implemented by the strategies that Builder builds.
type Pin interface {
	balancer.Strategy
	// Pinned returns the endpoint that is in use, nil if none is.
	Pinned() *balancer.Endpoint
	// LastUnpin returns the endpoint that was unpinned last, why, and when; nil, None and
	// the zero time if there is none.
	LastUnpin() (ep *balancer.Endpoint, reason Reason, at time.Time)
}

// Builder builds the strategy "pinned", in the form given by its [Config].
var Builder = balancer.Builder{Name: "pinned", Build: build, Parse: parse}

var (
	_ Pin                = (*firstOfAll)(nil)
	_ Pin                = (*race)(nil)
	_ balancer.Selective = (*race)(nil)
)

func build(config serviceconfig.LoadBalancingConfig) balancer.Strategy {
	if c, ok := config.(*Config); ok && c.Form == FirstOfAll {
		return &firstOfAll{pin{env: realEnv}}
	}
	return &race{pin: pin{env: realEnv}}
}

// parse reads the strategy's part of a service config. It ignores other fields, which
// belong to the policy.
func parse(js []byte) (serviceconfig.LoadBalancingConfig, error) {
	c := &Config{Form: Race}
	if err := json.Unmarshal(js, c); err != nil {
		return nil, err
	}
	switch c.Form {
	case Race, FirstOfAll:
		return c, nil
	case "":
		c.Form = Race
		return c, nil
	default:
		return nil, fmt.Errorf("form must be %q or %q; it is %q", Race, FirstOfAll, c.Form)
	}
}

// pin is the endpoint in use. Both forms embed it.
type pin struct {
	endpoint atomic.Pointer[balancer.Endpoint]
	last     atomic.Pointer[unpinned]
	env
}

// env is what a pin reads from outside. Tests replace it.
type env struct {
	now                func() time.Time
	random             func(n int) int // at least 0, less than n
	ready, unreachable func(*balancer.Endpoint) bool
	priority           func(*balancer.Endpoint) uint32
}

var realEnv = env{
	now: time.Now, random: rand.IntN,
	ready: (*balancer.Endpoint).Ready, unreachable: (*balancer.Endpoint).Unreachable, priority: (*balancer.Endpoint).Priority,
}

type unpinned struct {
	endpoint *balancer.Endpoint
	reason   Reason
	at       time.Time
}

// Pinned returns the endpoint that is in use, nil if none is.
func (p *pin) Pinned() *balancer.Endpoint { return p.endpoint.Load() }

// LastUnpin returns the endpoint that was unpinned last, why, and when.
func (p *pin) LastUnpin() (ep *balancer.Endpoint, reason Reason, at time.Time) {
	last := p.last.Load()
	if last == nil {
		return nil, None, time.Time{}
	}
	return last.endpoint, last.reason, last.at
}

// move replaces the pinned endpoint from by next, either of which may be nil. It returns
// false if from is no longer pinned.
func (p *pin) move(from, next *balancer.Endpoint, reason Reason) bool {
	if !p.endpoint.CompareAndSwap(from, next) {
		return false
	}
	if from != nil {
		p.last.Store(&unpinned{from, reason, p.now()})
	}
	return true
}

// reasonToUnpin returns the reason to unpin an endpoint that is, or was, connected.
func (p *pin) reasonToUnpin(ep *balancer.Endpoint) Reason {
	if reason := byState[ep.State()]; reason != None {
		return reason
	}
	if !p.ready(ep) {
		return Disconnected
	}
	return None
}

// randomUsable returns a random one of the connected endpoints that have no reason to be
// unpinned, nil if there is none.
func (p *pin) randomUsable(eps []*balancer.Endpoint) *balancer.Endpoint {
	if len(eps) == 0 {
		return nil
	}
	begin := p.random(len(eps))
	for i := range eps {
		if ep := eps[(begin+i)%len(eps)]; p.reasonToUnpin(ep) == None {
			return ep
		}
	}
	return nil
}

// randomOf returns a random one of the endpoints. There must be at least one.
func (p *pin) randomOf(eps []*balancer.Endpoint) *balancer.Endpoint { return eps[p.random(len(eps))] }

// Reason is why an endpoint was unpinned. The zero value is None.
type Reason uint8

const (
	// None means that there is no reason to unpin the endpoint.
	None Reason = iota
	// Disconnected means that the connection was lost or is being closed by the server.
	Disconnected
	// Dead means that the endpoint does not answer at all.
	Dead
	// Suspected means that the endpoint was silent for longer than usual while another one
	// was available.
	Suspected
	// Slow means that the endpoint answers much later than it should.
	Slow
	// Lagging means that the endpoint is alive but completes no work.
	Lagging
	// Degraded means that the server reports that it can serve local calls only, for now.
	Degraded
	// Restricted means that the role of the server lets it serve local calls only.
	Restricted
	// NotServing means that the server reports that it does not serve.
	NotServing
	// Removed means that the endpoint is no longer one of the client's.
	Removed
	// Outranked means that an endpoint of a better priority was fit.
	Outranked
)

var reasonNames = [...]string{
	None: "none", Disconnected: "disconnected", Dead: "dead", Suspected: "suspected", Slow: "slow", Lagging: "lagging",
	Degraded: "degraded", Restricted: "restricted", NotServing: "not serving", Removed: "removed",
	Outranked: "outranked",
}

// String returns the reason's name: "none", "disconnected", "dead", "suspected", "slow",
// "lagging", "degraded", "restricted", "not serving", "removed" or "outranked".
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// byState maps the states in which an endpoint is unpinned to the reason.
var byState = map[health.State]Reason{
	health.Suspected: Suspected, health.Slow: Slow, health.Lagging: Lagging, health.Degraded: Degraded,
	health.Restricted: Restricted, health.NotServing: NotServing, health.Draining: Removed, health.Dead: Dead,
}

// useful reports whether an endpoint with this reason can still serve some calls. It then
// stays connected until another one has replaced it.
func (r Reason) useful() bool {
	switch r {
	case None, Suspected, Slow, Lagging, Degraded, Restricted:
		return true
	default:
		return false
	}
}

// race is the form that connects to one endpoint. Wanted moves the pin.
type race struct {
	pin
	// loser is the endpoint that was unpinned before the present race, nil if there is no
	// race.
	loser *balancer.Endpoint
}

// Pick returns the pinned endpoint, or, during a race, another connected one.
func (s *race) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	if pinned := s.endpoint.Load(); pinned != nil && slices.Contains(fit, pinned) {
		return pinned
	}
	return s.randomOf(fit)
}

// Wanted returns the pinned endpoint while there is no [Reason] to unpin it, or else the
// endpoints that race to replace it.
func (s *race) Wanted(all []*balancer.Endpoint) []*balancer.Endpoint {
	pinned := s.endpoint.Load()
	reason := None
	if pinned != nil {
		reason = s.reasonToUnpin(pinned)
		if !slices.Contains(all, pinned) {
			reason = Removed
		}
		if reason == None {
			return []*balancer.Endpoint{pinned}
		}
	}
	if winner := s.randomUsable(s.contenders(all)); winner != nil {
		s.move(pinned, winner, reason)
		s.loser = nil
		return []*balancer.Endpoint{winner}
	}
	if !reason.useful() {
		s.move(pinned, nil, reason)
		s.loser = pinned
	}
	return s.racers(all)
}

// contenders returns the endpoints of the best priority of which one can win.
func (s *race) contenders(all []*balancer.Endpoint) []*balancer.Endpoint {
	able := slices.DeleteFunc(slices.Clone(all), func(ep *balancer.Endpoint) bool {
		return byState[ep.State()] != None || s.unreachable(ep)
	})
	if len(able) == 0 {
		return nil
	}
	best := s.priority(slices.MinFunc(able, func(a, b *balancer.Endpoint) int {
		return cmp.Compare(s.priority(a), s.priority(b))
	}))
	return slices.DeleteFunc(able, func(ep *balancer.Endpoint) bool { return s.priority(ep) != best })
}

// racers returns the endpoints that race: all, except the one that was just unpinned if
// its reason still holds and there is an alternative. One that was merely disconnected
// races with the others.
func (s *race) racers(all []*balancer.Endpoint) []*balancer.Endpoint {
	if s.loser == nil || byState[s.loser.State()].useful() {
		return all
	}
	others := slices.DeleteFunc(slices.Clone(all), func(ep *balancer.Endpoint) bool { return ep == s.loser })
	if slices.ContainsFunc(others, func(ep *balancer.Endpoint) bool {
		return byState[ep.State()].useful() && !s.unreachable(ep)
	}) {
		return others
	}
	return all
}

// firstOfAll is the form that stays connected to all endpoints. Pick moves the pin.
type firstOfAll struct{ pin }

// Pick returns the pinned endpoint. If that one is not fit for the call, Pick pins
// another one; if only this call is to avoid it, Pick returns another one of its priority
// and keeps the pin.
func (s *firstOfAll) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint {
	for {
		pinned := s.endpoint.Load()
		reason := None
		if pinned != nil {
			if slices.Contains(fit, pinned) {
				return pinned
			}
			reason = s.reasonToUnpin(pinned)
			switch {
			case s.priority(fit[0]) < s.priority(pinned):
				reason = Outranked
			case reason == None:
				return s.randomOf(fit)
			}
		}
		next := s.randomUsable(fit)
		if next == nil {
			return s.randomOf(fit) // all are unfit: any, for this call only
		}
		if s.move(pinned, next, reason) {
			return next
		}
	}
}
