package channel

import (
	"slices"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// policyName is the load-balancing policy of every channel: grpc's
// round_robin, observed.
const policyName = "quorate_round_robin"

// serviceConfig selects the policy. Retry is not configured here: grpc's own is
// off (see dialOptions) because it resends writes that a broken connection may
// have delivered.
const serviceConfig = `{"loadBalancingConfig":[{"` + policyName + `":{}}]}`

func init() { balancer.Register(observedPolicy{}) }

// observedPolicy builds a round_robin whose picks are written into the
// attempt's record.
type observedPolicy struct{}

func (observedPolicy) Name() string { return policyName }

func (observedPolicy) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(roundrobin.Name).Build(observedConn{cc}, opts)
}

type observedConn struct{ balancer.ClientConn }

func (c observedConn) UpdateState(s balancer.State) {
	s.Picker = observedPicker{s.Picker}
	c.ClientConn.UpdateState(s)
}

type observedPicker struct{ balancer.Picker }

// errOver ends a call that nobody waits for any more. It carries a status so
// that grpc does not queue the call for another pick.
var errOver = status.Error(codes.Canceled, "this attempt of the call is over")

func (p observedPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a := attemptFrom(info.Ctx)
	if a == nil {
		return p.Picker.Pick(info)
	}
	res, err := p.pickAway(info, a.avoid)
	if err != nil {
		a.picked.CompareAndSwap(nil, &picked{})
		return res, err
	}
	a.picked.Store(&picked{res.SubConn})
	a.maySent.Add(1)
	done := res.Done
	res.Done = func(info balancer.DoneInfo) {
		if !info.BytesSent {
			a.maySent.Add(-1)
		}
		if done != nil {
			done(info)
		}
	}
	if a.over.Load() {
		res.Done(balancer.DoneInfo{})
		return balancer.PickResult{}, errOver
	}
	return res, nil
}

// pickAway picks a connection that is not to be avoided, if there is one. It
// goes twice around as many connections as there are to avoid, and a few steps
// more: other calls move around the same ring.
func (p observedPicker) pickAway(info balancer.PickInfo, avoid []balancer.SubConn) (balancer.PickResult, error) {
	res, err := p.Picker.Pick(info)
	if len(avoid) == 0 {
		return res, err
	}
	for range 2*len(avoid) + 2 {
		if err != nil || !slices.Contains(avoid, res.SubConn) {
			break
		}
		if res.Done != nil {
			res.Done(balancer.DoneInfo{})
		}
		res, err = p.Picker.Pick(info)
	}
	return res, err
}
