package lease

import (
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

type silentSink struct{}

func (silentSink) Valid(time.Time, time.Duration)     {}
func (silentSink) Deliver(*pb.LeaseKeepAliveResponse) {}
func (silentSink) Close(error)                        {}

// BenchmarkMachine measures one renewal without its transport: it becomes due, is sent, and is answered.
func BenchmarkMachine(b *testing.B) {
	for _, leases := range []int{100, 50_000} {
		b.Run(fmt.Sprintf("%d leases", leases), func(b *testing.B) {
			now := time.Unix(1e9, 0)
			var drawn uint64
			random := func() float64 {
				drawn = drawn*6364136223846793005 + 1442695040888963407
				return float64(drawn>>11) / (1 << 53)
			}
			m := NewMachine(now, time.Minute, random)
			for id := range int64(leases) {
				m.Subscribe(now, id, &Subscriber{Sink: silentSink{}})
			}
			m.Opening(now)
			m.Opened(now)
			ids := make([]int64, 0, maxBatch)
			resp := &pb.LeaseKeepAliveResponse{TTL: 60}
			b.ReportAllocs()
			for renewed := 0; renewed < b.N; {
				for _, id := range m.Take(now, ids) {
					resp.ID = id
					m.Answered(now, resp)
					renewed++
				}
				if !m.Sendable() {
					now, _ = m.WakeAt()
					m.Advance(now)
				}
			}
		})
	}
}

// BenchmarkSubscribe measures a kept lease until its first renewal is sent.
func BenchmarkSubscribe(b *testing.B) {
	now := time.Unix(1e9, 0)
	m := NewMachine(now, time.Minute, func() float64 { return 0 })
	b.ReportAllocs()
	for id := range int64(b.N) {
		m.Subscribe(now, id, &Subscriber{Sink: silentSink{}})
	}
}
