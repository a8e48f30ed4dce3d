package balancer

import (
	"context"
	"testing"

	"google.golang.org/grpc/balancer"

	"github.com/quorate/quorate/health"
)

// firstFit is a strategy.
type firstFit struct{}

func (firstFit) Pick(_ Call, fit []*Endpoint) *Endpoint { return fit[0] }

// BenchmarkPick is a pick and its end.
func BenchmarkPick(b *testing.B) {
	p := newPolicy(nil, Builder{})
	defer p.stop()
	k := p.withOne(in("a", health.Served))
	p.latest.Store(k)
	p.endpoints = k.connected
	p.proof.proven = true
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a := &Attempt{Shape: "get"}
			ctx := WithAttempt(context.Background(), a)
			r, err := k.Pick(balancer.PickInfo{FullMethodName: "/etcdserverpb.KV/Range", Ctx: ctx})
			if err != nil {
				b.Fatal(err)
			}
			r.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
		}
	})
	p.endpoints[0].inflight.stop()
}

// withOne returns a picker of the policy with one endpoint, which is connected and fit.
func (p *policy) withOne(ep *Endpoint) *picker {
	p.chosen.Store(&chosen{Strategy: firstFit{}})
	ep.policy = p
	s := &subConn{ep: ep}
	ep.conns[Calls].Store(s)
	ep.usable[Calls].Store(&usable{subConn: s})
	k := &picker{p: p, connected: []*Endpoint{ep}}
	for n := range k.fit {
		k.fit[n] = k.connected
	}
	return k
}
