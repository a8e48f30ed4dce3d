package balancer

import (
	"context"
	"testing"
	"time"

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
	var strategy Strategy = firstFit{}
	p.chosen.Store(&strategy)
	ep := newEndpoint("a", health.NewTable().Acquire("", "a"))
	ep.policy = p
	ep.conns[Calls].Store(&subConn{ep: ep})
	k := &picker{p: p, connected: []*Endpoint{ep}}
	ep.usable[Calls].Store(&usable{subConn: ep.conn(Calls)})
	p.latest.Store(k)
	for n := range k.fit {
		k.fit[n] = k.connected
	}
	p.endpoints = k.connected
	p.proof.proven = true
	ep.known().Note(health.Evidence{Kind: health.Served})
	ep.known().Completed(time.Now(), time.Now())
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
	ep.inflight.stop()
}
