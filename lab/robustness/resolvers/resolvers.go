// Package resolvers is the workload of package robustness in which many channels resolve names while the sources of the
// names fail. It checks that all channels keep their backends.
//
// There is a trial for each resolver: a source, real backends that are added and removed, and channels. The
// sources are a DNS server, the etcd cluster of the run, and an API server in memory; they are dead,
// restarted and compacted, refuse, or name nothing or a part of the backends, in an order that the seed
// gives. Some channels make calls, some go idle and connect again, some are closed and opened again, and
// now and then all are, even in the middle of faults.
//
// The checks: no channel is without backends once its builder knew some, the removal of most
// is not applied at once, after a fault each channel has the current list in time, calls do not
// fail, a source that is back is not overloaded, and nothing is left at the end.
package resolvers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/robustness"
)

// The promises.
const (
	// Serving means that no channel is without backends once its builder had some.
	Serving robustness.Promise = "serving"
	// Removal means that the removal of most backends is not applied at once.
	Removal robustness.Promise = "removal"
	// Current means that a channel has the current list soon after a change, and after the
	// source is back.
	Current robustness.Promise = "current"
	// Calls means that calls do not fail while backends serve.
	Calls robustness.Promise = "calls"
	// Spread means that a source which is back is not overloaded.
	Spread robustness.Promise = "spread"
	// Clean means that nothing is left when everything is closed.
	Clean robustness.Promise = "clean"
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	robustness.Config
	// Resolvers are those under test, by name, at the same time. Default all, see [Resolvers].
	Resolvers []string
	// Channels over each resolver, which share a builder. Default 100.
	Channels int

	// bound is how long a channel may take to have the current list after its source is back, or has changed, and to have
	// any when it opens. Default 5 s.
	bound time.Duration
	// wrap and removalDelay make resolvers break promises, in tests. another returns a new builder.
	wrap         func(b resolver.Builder, another func() (resolver.Builder, error)) resolver.Builder
	removalDelay time.Duration // their MassRemovalDelay, by default the constant of that name
	// only is the name of the faults that are injected. Default all.
	only string
}

// Resolvers returns the names of all resolvers.
func Resolvers() []string { return slices.Sorted(maps.Keys(sources)) }

// Run takes the channels of each resolver through faults of its source, see [robustness.Run].
func (c Config) Run(ctx context.Context) (robustness.Outcome, error) {
	before := goleak.IgnoreCurrent()
	result, err := c.run(ctx)
	if err == nil && result.Checked() {
		if left := robustness.Leaked(before); left != nil {
			result.Verdict.Add(Clean, "%v", left)
		}
	}
	return result, err
}

// run is Run without the check of [Clean].
func (c Config) run(ctx context.Context) (robustness.Outcome, error) {
	c.Channels = cmp.Or(c.Channels, 100)
	c.bound = cmp.Or(c.bound, 5*time.Second)
	c.removalDelay = cmp.Or(c.removalDelay, removalDelay)
	if len(c.Resolvers) == 0 {
		c.Resolvers = Resolvers()
	}
	return robustness.Run(ctx, c.Config, lab.Config{}, c.workload)
}

// workload has channels resolve names under faults of the sources. It collects what was found meanwhile, and checks what arrived at
// the sources.
func (c Config) workload(ctx context.Context, env *robustness.Env) {
	began := time.Now()
	trials := make([]*trial, 0, len(c.Resolvers))
	for i, name := range c.Resolvers {
		t := newTrial(name, c, env, env.Rand(uint64(i)<<16))
		trials = append(trials, t)
		t.start()
	}
	running, ctx := errgroup.WithContext(ctx)
	for _, t := range trials {
		running.Go(func() error { return t.run(ctx) })
	}
	fatal.If(errors.Join(running.Wait(), env.Close()))
	for _, t := range trials {
		t.checkArrivals(began)
		countTimes(env.Counts, t.resolver+" changes", t.seen)
		countTimes(env.Counts, t.resolver+" opened", t.opened)
		env.Verdict.Merge(t.verdict)
	}
}

// countTimes counts times, in milliseconds.
func countTimes(counts *robustness.Counts, subject string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	for what, share := range map[string]float64{"ms median": 0.5, "ms p99": 0.99, "ms longest": 1} {
		counts.Add(subject, what, int(times[int(share*float64(len(times)-1))].Milliseconds()))
	}
	counts.Add(subject, "seen", len(times))
}
