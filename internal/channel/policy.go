package channel

import (
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
)

// policyName is the load-balancing policy of every channel: grpc's
// round_robin, observed.
const policyName = "quorate_round_robin"

// serviceConfig selects the policy. Retry is not configured here: grpc's own is
// off (see dialOptions) because it resends writes that a broken connection may
// have delivered.
const serviceConfig = `{"loadBalancingConfig":[{"` + policyName + `":{}}]}`

// repicks bounds how often a pick is repeated to get away from the connection
// of the attempt before: round robin over n connections needs one repetition.
// More are for callers that race each other around the ring.
const repicks = 4

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

func (p observedPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a := attemptFrom(info.Ctx)
	if a == nil {
		return p.Picker.Pick(info)
	}
	res, err := p.Picker.Pick(info)
	for i := 0; err == nil && res.SubConn == a.avoid && i < repicks; i++ {
		if res.Done != nil {
			res.Done(balancer.DoneInfo{})
		}
		res, err = p.Picker.Pick(info)
	}
	a.picked.Store(&picked{res.SubConn})
	if err != nil {
		return res, err
	}
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
	return res, nil
}
