package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/bench/internal/cputime"
)

// leases grants leases by 32 callers, so that the grants spread over the time that the server takes for them, and keeps them
// alive. For one whole TTL, which begins a sixth of the TTL after the last grant, midway between renewals, it measures the CPU
// time of this process, and how late each keepalive is sent. The official client counts from the answer to the previous one, so
// its lateness includes the time of that answer.
func leases(s setup) figures {
	ttl := time.Minute
	if s.size <= 1_000 { // a short run
		ttl /= 10
	}
	sent := &keepalives{times: make(map[int64][]time.Time)}
	c := s.connect(grpc.WithChainStreamInterceptor(sent.intercept))
	defer c.Close()
	kept := make([]renewals, s.size)
	work, granting := errgroup.WithContext(s)
	work.SetLimit(32)
	for i := range kept {
		work.Go(func() (err error) {
			kept[i], err = c.lease(s, granting, int64(ttl.Seconds()))
			return err
		})
	}
	fatal.If(work.Wait())
	fatal.If(pause.For(s, ttl/6))
	start, cpu := time.Now(), cputime.Used()
	fatal.If(pause.For(s, ttl))
	took, cpu := time.Since(start), cputime.Used()-cpu
	late := sent.late(start, ttl/3)
	for i, k := range kept {
		if n := k.arrived(); n < 3 {
			fatal.If(fmt.Errorf("lease %d of %d was renewed %d times in seven sixths of its TTL", i, s.size, n))
		}
	}
	return figures{
		"cpu-%":     100 * cpu.Seconds() / took.Seconds(),
		"late-s":    late[len(late)/2].Seconds(),
		"lateMax-s": late[len(late)-1].Seconds(),
	}
}

// keepalives notes when the keepalives of each lease are sent, as a stream interceptor of either client.
type keepalives struct {
	mu    sync.Mutex
	times map[int64][]time.Time
}

// late returns in order how late those were that were sent since a time, or are overdue.
func (k *keepalives) late(since time.Time, due time.Duration) (all []time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, times := range k.times {
		for i, sent := range times[1:] {
			if sent.After(since) {
				all = append(all, max(sent.Sub(times[i])-due, 0))
			}
		}
		if overdue := time.Since(times[len(times)-1]) - due; overdue > 0 {
			all = append(all, overdue)
		}
	}
	slices.Sort(all)
	return all
}

func (k *keepalives) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	return &renewalStream{stream, k}, err
}

type renewalStream struct {
	grpc.ClientStream
	sent *keepalives
}

func (s *renewalStream) SendMsg(m any) error {
	if req, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.sent.mu.Lock()
		s.sent.times[req.ID] = append(s.sent.times[req.ID], time.Now())
		s.sent.mu.Unlock()
	}
	return s.ClientStream.SendMsg(m)
}
