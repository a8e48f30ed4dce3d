package pools

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

// traffic is what callers have seen.
type traffic struct {
	perSecond float64
	p99       float64 // seconds
}

// smallCalls has n callers make small calls, one after the other, for a time. What they see
// before the connections are there, in the first tenth of it, does not count.
func smallCalls(ctx context.Context, client pb.TestServiceClient, n int, d time.Duration) (traffic, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}}
	begin := time.Now()
	counts, end := begin.Add(d/10), begin.Add(d)
	var all sync.WaitGroup
	took := make([][]time.Duration, n)
	for i := range n {
		all.Go(func() {
			for {
				called := time.Now()
				if called.After(end) || ctx.Err() != nil {
					return
				}
				if _, err := client.UnaryCall(ctx, request); err != nil {
					cancel(err)
					return
				}
				if called.After(counts) {
					took[i] = append(took[i], time.Since(called))
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return traffic{}, err
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(sorted) == 0 {
		return traffic{}, nil
	}
	return traffic{float64(len(sorted)) / time.Since(counts).Seconds(), sorted[len(sorted)*99/100].Seconds()}, nil
}
