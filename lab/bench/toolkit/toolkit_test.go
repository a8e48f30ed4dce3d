package toolkit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scenario is what happens to backends, and what is measured.
type scenario struct {
	name  string
	size  int           // backends
	takes time.Duration // duration of a call

	repeatable    bool // calls may be executed twice
	healthChecked bool // by healthCheckConfig
	denies        bool // health services answer Unauthenticated
	freezes       bool // a backend

	run func(*channel) figures
}

// figures are what was measured, by names that end with their units.
type figures map[string]float64

// usual is how long a call takes where nothing is wrong.
const usual = 5 * time.Millisecond

var scenarios = []scenario{
	{name: "frozen-streams", size: 3, freezes: true, run: frozenStreams},
	{name: "hiccup-unauthenticated", size: 3, takes: usual, denies: true, run: hiccup},
	{name: "not-serving", size: 3, takes: usual, healthChecked: true, run: notServing},
	{name: "equal", size: 3, run: equal},
	{name: "frozen-8", size: 3, takes: usual, repeatable: true, freezes: true, run: frozen(8)},
	{name: "failing", size: 5, takes: usual, run: oneOf(15*time.Second, func(b *backend) { b.fails.Store(true) })},
	{name: "slow", size: 5, takes: usual, run: oneOf(10*time.Second, func(b *backend) { b.takes.Store(20 * int64(usual)) })},
	{name: "frozen-300", size: 3, takes: usual, repeatable: true, freezes: true, run: frozen(300)},
	{name: "2000-backends", size: 2000, run: many},
}

// BenchmarkPolicies reports medians.
func BenchmarkPolicies(b *testing.B) {
	for _, s := range scenarios {
		b.Run(s.name, func(b *testing.B) {
			for _, p := range policies {
				b.Run(p.name, func(b *testing.B) {
					rounds := map[string][]float64{}
					for b.Loop() {
						for name, figure := range measure(b, s, p) {
							rounds[name] = append(rounds[name], figure)
						}
					}
					b.ReportMetric(0, "ns/op")
					for name, all := range rounds {
						b.ReportMetric(stats.Of(all).Median, name)
					}
				})
			}
		})
	}
}

// channel is a channel and its backends.
type channel struct {
	backends []*backend
	client   pb.TestServiceClient
}

// measure runs a scenario with a policy.
func measure(tb testing.TB, s scenario, p policy) figures {
	c := &channel{}
	var state resolver.State
	for range s.size {
		b := start(tb, s)
		defer b.stop()
		c.backends = append(c.backends, b)
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: b.addr}}})
	}
	list := manual.NewBuilderWithScheme("toolkit")
	list.InitialState(state)
	options, err := p.dialOptions(s, list)
	require.NoError(tb, err)
	conn, err := grpc.NewClient("toolkit:///", options...)
	require.NoError(tb, err)
	defer conn.Close()
	conn.Connect()
	time.Sleep(time.Second + time.Duration(s.size)*2*time.Millisecond) // until all are connected
	c.client = pb.NewTestServiceClient(conn)
	return s.run(c)
}

// counts returns how many calls and streams each backend has had.
func (c *channel) counts() []float64 {
	all := make([]float64, len(c.backends))
	for i, b := range c.backends {
		all[i] = float64(b.calls.Load())
	}
	return all
}

// shares returns what each backend has had since before, in percent.
func (c *channel) shares(before []float64) []float64 {
	all, sum := c.counts(), 0.0
	for i := range all {
		all[i] -= before[i]
		sum += all[i]
	}
	for i := range all {
		all[i] *= 100 / max(sum, 1)
	}
	return all
}

// busiest returns the index of the backend with the most calls: a fault there affects the callers with every policy.
func (c *channel) busiest() int {
	counts := c.counts()
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

// callTimeout is the deadline of a call.
var callTimeout = 2 * time.Second

// load makes calls from callers that pause between them, and returns when the last calls have ended.
func (c *channel) load(callers int, pause, length time.Duration) *outcome {
	var o outcome
	var work sync.WaitGroup
	end := time.Now().Add(length)
	for range callers {
		work.Go(func() {
			for began := time.Now(); began.Before(end); began = time.Now() {
				ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
				_, err := c.client.EmptyCall(ctx, &pb.Empty{})
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
func (c *channel) warmUp() { c.load(8, usual, 1500*time.Millisecond) }

// never is the time after which streams count as left on a frozen backend.
const never = 10 * time.Second

// frozenStreams freezes a backend of callers that only have streams, and open them again when they end.
func frozenStreams(c *channel) figures {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var at sync.Map // the backend of each stream
	for i := range 9 {
		go func() {
			for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				stream, err := c.client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
				for err == nil {
					var m *pb.StreamingOutputCallResponse
					if m, err = stream.Recv(); err == nil {
						at.Store(i, string(m.GetPayload().GetBody()))
					}
				}
			}
		}()
	}
	time.Sleep(5 * time.Second)
	b := c.backends[c.busiest()]
	b.link.Blackhole(link.Both)
	began := time.Now()
	for left := true; left && time.Since(began) < never; time.Sleep(10 * time.Millisecond) {
		left = false
		at.Range(func(_, from any) bool { left = from == b.addr; return !left })
	}
	return figures{"elsewhere-s": min(never, time.Since(began)).Seconds()}
}

// frozen freezes a backend while callers are at work.
func frozen(callers int) func(*channel) figures {
	return func(c *channel) figures {
		c.warmUp()
		time.AfterFunc(time.Second, func() { c.backends[c.busiest()].link.Blackhole(link.Both) })
		o := c.load(callers, 20*time.Millisecond, 4*time.Second)
		return figures{"failed": o.failed, "longest-ms": o.quantile(1)}
	}
}

// hiccup slows a backend down once, for a second.
func hiccup(c *channel) figures {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { c.load(6, 20*time.Millisecond, 18*time.Second) })
	time.Sleep(3 * time.Second)
	i := c.busiest()
	c.backends[i].takes.Store(int64(time.Second))
	time.Sleep(time.Second)
	c.backends[i].takes.Store(int64(usual))
	time.Sleep(10 * time.Second)
	before := c.counts()
	time.Sleep(4 * time.Second)
	return figures{"its-share-%": c.shares(before)[i]}
}

// notServing makes the health service of a backend say that it does not serve, although it still answers calls.
func notServing(c *channel) figures {
	c.warmUp()
	i := c.busiest()
	c.backends[i].health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	time.Sleep(100 * time.Millisecond)
	before := c.counts()
	o := c.load(10, 10*time.Millisecond, 2*time.Second)
	return figures{"calls-to-it": c.counts()[i] - before[i], "failed": o.failed}
}

// equal has one caller and no fault.
func equal(c *channel) figures {
	before := c.counts()
	o := c.load(1, 0, time.Second)
	shares := c.shares(before)
	return figures{"least-share-%": slices.Min(shares), "greatest-share-%": slices.Max(shares), "failed": o.failed}
}

// oneOf acts on one backend of several.
func oneOf(length time.Duration, do func(*backend)) func(*channel) figures {
	return func(c *channel) figures {
		c.warmUp()
		do(c.backends[c.busiest()])
		o := c.load(20, 20*time.Millisecond, length)
		return figures{"failed-%": 100 * o.failed / float64(len(o.took)), "p99-ms": o.quantile(0.99)}
	}
}

// many has callers that do not pause, as soon as the channel is connected.
func many(c *channel) figures {
	first := c.load(16, 0, 4*time.Second)
	began := cputime.Used()
	next := c.load(16, 0, 4*time.Second)
	return figures{
		"calls/s":     float64(len(first.took)) / 4,
		"cpu-µs/call": (cputime.Used() - began).Seconds() * 1e6 / float64(len(next.took)),
		"failed":      first.failed + next.failed,
	}
}
