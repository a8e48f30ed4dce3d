package toolkit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/lab/bench/internal/cputime"
	"github.com/quorate/quorate/lab/link"
)

// scenario is what happens to backends, and what is measured.
type scenario struct {
	name  string
	size  int           // backends at the start
	takes time.Duration // duration of a call

	repeatable    bool // calls may be executed twice
	healthChecked bool // by healthCheckConfig
	denies        bool // health services answer Unauthenticated
	freezes       bool // a backend

	run func(*rig) figures
}

// figures are what was measured, by names that end with their units.
type figures map[string]float64

var scenarios = []scenario{
	{name: "flap", size: 3, run: flap},
	{name: "frozen-streams", size: 3, freezes: true, run: frozenStreams},
	{name: "hiccup-unauthenticated", size: 3, takes: usual, denies: true, run: hiccup},
	{name: "not-serving", size: 3, takes: usual, healthChecked: true, run: notServing},
	{name: "equal", size: 3, run: equal},
	{name: "frozen-8", size: 3, takes: usual, repeatable: true, freezes: true, run: frozen(8)},
	{name: "failing", size: 5, takes: usual, run: oneOf(15*time.Second, func(b *backend) { b.fails.Store(true) })},
	{name: "slow", size: 5, takes: usual, run: oneOf(10*time.Second, func(b *backend) { b.takes.Store(20 * int64(usual)) })},
	{name: "rolling", size: 5, takes: usual, run: rolling},
	{name: "frozen-300", size: 3, takes: usual, repeatable: true, freezes: true, run: frozen(300)},
	{name: "2000-backends", size: 2000, run: many},
}

// flap leaves a backend with streams out of the list for a second.
func flap(r *rig) figures {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var cut atomic.Int64
	for range 12 {
		go func() {
			r.follow(ctx, func(string) {})
			cut.Add(1)
		}()
	}
	time.Sleep(time.Second)
	i := r.busiest()
	r.list.UpdateState(stateOf(slices.Delete(slices.Clone(r.backends), i, i+1)))
	time.Sleep(time.Second)
	r.list.UpdateState(stateOf(r.backends))
	time.Sleep(35 * time.Second) // a policy may let the streams of what left the list end late
	return figures{"streams-cut": float64(cut.Load())}
}

// never is the time after which streams count as left on a frozen backend.
const never = 10 * time.Second

// frozenStreams freezes a backend of callers that only have streams, and open them again when they end.
func frozenStreams(r *rig) figures {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var at sync.Map // the backend of each stream
	for i := range 9 {
		go func() {
			for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				r.follow(ctx, func(from string) { at.Store(i, from) })
			}
		}()
	}
	time.Sleep(5 * time.Second)
	b := r.backends[r.busiest()]
	b.link.Blackhole(link.Both)
	began := time.Now()
	for left := true; left && time.Since(began) < never; time.Sleep(10 * time.Millisecond) {
		left = false
		at.Range(func(_, from any) bool { left = from == b.addr; return !left })
	}
	return figures{"elsewhere-s": min(never, time.Since(began)).Seconds()}
}

// frozen freezes a backend while callers are at work.
func frozen(callers int) func(*rig) figures {
	return func(r *rig) figures {
		r.warmUp()
		time.AfterFunc(time.Second, func() { r.backends[r.busiest()].link.Blackhole(link.Both) })
		o := r.load(callers, 20*time.Millisecond, 4*time.Second)
		return figures{"failed": o.failed, "longest-ms": o.quantile(1)}
	}
}

// hiccup slows a backend down once, for a second.
func hiccup(r *rig) figures {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { r.load(6, 20*time.Millisecond, 18*time.Second) })
	time.Sleep(3 * time.Second)
	i := r.busiest()
	r.backends[i].takes.Store(int64(time.Second))
	time.Sleep(time.Second)
	r.backends[i].takes.Store(int64(usual))
	time.Sleep(10 * time.Second)
	before := r.counts()
	time.Sleep(4 * time.Second)
	return figures{"its-share-%": r.shares(before)[i]}
}

// notServing makes the health service of a backend say that it does not serve, although it still answers calls.
func notServing(r *rig) figures {
	r.warmUp()
	i := r.busiest()
	r.backends[i].health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	time.Sleep(100 * time.Millisecond)
	before := r.counts()
	o := r.load(10, 10*time.Millisecond, 2*time.Second)
	return figures{"calls-to-it": float64(r.counts()[i] - before[i]), "failed": o.failed}
}

// equal has one caller and no fault.
func equal(r *rig) figures {
	before := r.counts()
	o := r.load(1, 0, time.Second)
	shares := r.shares(before)
	return figures{"least-share-%": slices.Min(shares), "greatest-share-%": slices.Max(shares), "failed": o.failed}
}

// oneOf acts on one backend of several.
func oneOf(length time.Duration, do func(*backend)) func(*rig) figures {
	return func(r *rig) figures {
		r.warmUp()
		do(r.backends[r.busiest()])
		o := r.load(20, 20*time.Millisecond, length)
		return figures{"failed-%": 100 * o.failed / float64(len(o.took)), "p99-ms": o.quantile(0.99)}
	}
}

// rolling replaces all backends: a new one is listed, an old one shuts down gracefully, and leaves the list later.
func rolling(r *rig) figures {
	r.warmUp()
	done := make(chan *outcome, 1)
	go func() { done <- r.load(50, 20*time.Millisecond, 6*time.Second) }()
	for range r.size {
		r.backends = append(r.backends, start(r.scenario))
		live := r.backends[len(r.backends)-r.size:]
		old := r.backends[len(r.backends)-r.size-1]
		r.list.UpdateState(stateOf(append(slices.Clone(live), old)))
		time.Sleep(200 * time.Millisecond)
		go old.server.GracefulStop()
		time.Sleep(300 * time.Millisecond)
		r.list.UpdateState(stateOf(live))
		time.Sleep(500 * time.Millisecond)
	}
	o := <-done
	return figures{"failed": o.failed, "longest-ms": o.quantile(1)}
}

// many has callers that do not pause, as soon as the channel is connected.
func many(r *rig) figures {
	first := r.load(16, 0, 4*time.Second)
	began := cputime.Used()
	next := r.load(16, 0, 4*time.Second)
	return figures{
		"calls/s":     float64(len(first.took)) / 4,
		"cpu-µs/call": (cputime.Used() - began).Seconds() * 1e6 / float64(len(next.took)),
		"failed":      first.failed + next.failed,
	}
}
