package channel

import (
	"slices"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
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
// attempt's record, and whose connections are known.
type observedPolicy struct{}

func (observedPolicy) Name() string { return policyName }

func (observedPolicy) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(roundrobin.Name).Build(observedConn{cc, newConnections()}, opts)
}

// observedConn is the ClientConn of the policy below ours, which sees a
// [connection] wherever grpc has a SubConn.
type observedConn struct {
	balancer.ClientConn
	connections *connections
}

func (c observedConn) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	conn, listener := c.connections.add(), opts.StateListener
	opts.StateListener = func(s balancer.SubConnState) {
		conn.note(s.ConnectivityState)
		listener(s)
	}
	sc, err := c.ClientConn.NewSubConn(addrs, opts) //nolint:staticcheck // the notice is about several addresses, and ours have one
	if err != nil {
		conn.leave()
		return nil, err
	}
	conn.SubConn = sc
	return conn, nil
}

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
		res, err := p.Picker.Pick(info)
		_, res = unwrap(res)
		return res, err
	}
	res, err := p.pickAway(info, a.avoid)
	if err != nil {
		a.picked.CompareAndSwap(nil, noConnection)
		return res, err
	}
	conn, res := unwrap(res)
	a.picked.Store(conn)
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
func (p observedPicker) pickAway(info balancer.PickInfo, avoid []*connection) (balancer.PickResult, error) {
	res, err := p.Picker.Pick(info)
	if len(avoid) == 0 {
		return res, err
	}
	for range 2*len(avoid) + 2 {
		if conn, _ := unwrap(res); err != nil || !slices.Contains(avoid, conn) {
			break
		}
		if res.Done != nil {
			res.Done(balancer.DoneInfo{})
		}
		res, err = p.Picker.Pick(info)
	}
	return res, err
}

// unwrap returns the connection that was picked, and the result as grpc wants
// it, with its own SubConn. The connection is nil if none was picked.
func unwrap(res balancer.PickResult) (*connection, balancer.PickResult) {
	conn, ok := res.SubConn.(*connection)
	if ok {
		res.SubConn = conn.SubConn
	}
	return conn, res
}
