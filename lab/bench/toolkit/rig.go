package toolkit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/lab/internal/fatal"
)

const usual = 5 * time.Millisecond // is how long a call takes

// callTimeout is the deadline of a call. Tests have a longer one.
var callTimeout = 2 * time.Second

// rig is a channel and its backends.
type rig struct {
	scenario
	backends []*backend // with those that the scenario has replaced
	list     *manual.Resolver
	client   pb.TestServiceClient
}

// measure runs a scenario with a policy. An error ends it, see package fatal.
func measure(s scenario, p policy) figures {
	r := &rig{scenario: s, list: manual.NewBuilderWithScheme("toolkit")}
	defer func() {
		for _, b := range r.backends {
			b.stop()
		}
	}()
	for range s.size {
		r.backends = append(r.backends, start(s))
	}
	r.list.InitialState(stateOf(r.backends))
	conn := fatal.OK(grpc.NewClient("toolkit:///", fatal.OK(p.dialOptions(s, r.list))...))
	defer conn.Close()
	conn.Connect()
	time.Sleep(time.Second + time.Duration(s.size)*2*time.Millisecond) // until all are connected
	r.client = pb.NewTestServiceClient(conn)
	return s.run(r)
}

// counts returns how many calls and streams each backend has had.
func (r *rig) counts() []int64 {
	all := make([]int64, len(r.backends))
	for i, b := range r.backends {
		all[i] = b.calls.Load()
	}
	return all
}

// shares returns what each backend has had since before, in percent.
func (r *rig) shares(before []int64) []float64 {
	all, sum := make([]float64, len(before)), 0.0
	for i, n := range r.counts() {
		all[i] = float64(n - before[i])
		sum += all[i]
	}
	for i := range all {
		all[i] *= 100 / max(sum, 1)
	}
	return all
}

// busiest returns the index of the backend with the most calls: a fault there affects the callers with every policy.
func (r *rig) busiest() int {
	counts := r.counts()
	return slices.Index(counts, slices.Max(counts))
}

// outcome is what callers have seen.
type outcome struct {
	mu     sync.Mutex
	took   []time.Duration
	failed float64
}

// quantile returns how long calls took, in milliseconds.
func (o *outcome) quantile(q float64) float64 {
	slices.Sort(o.took)
	return o.took[int(q*float64(len(o.took)-1))].Seconds() * 1000
}

// load makes calls from callers that pause between them, and returns when the last calls have ended.
func (r *rig) load(callers int, pause, length time.Duration) *outcome {
	var o outcome
	var work sync.WaitGroup
	end := time.Now().Add(length)
	for range callers {
		work.Go(func() {
			for began := time.Now(); began.Before(end); began = time.Now() {
				ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
				_, err := r.client.EmptyCall(ctx, &pb.Empty{})
				cancel()
				o.mu.Lock()
				o.took = append(o.took, time.Since(began))
				if err != nil {
					o.failed++
				}
				o.mu.Unlock()
				if pause > 0 {
					time.Sleep(rand.N(2 * pause))
				}
			}
		})
	}
	work.Wait()
	return &o
}

// warmUp lets the policy learn.
func (r *rig) warmUp() { r.load(8, usual, 1500*time.Millisecond) }

// follow receives a stream until it ends.
func (r *rig) follow(ctx context.Context, received func(from string)) {
	stream, err := r.client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	for err == nil {
		var m *pb.StreamingOutputCallResponse
		if m, err = stream.Recv(); err == nil {
			received(string(m.GetPayload().GetBody()))
		}
	}
}
