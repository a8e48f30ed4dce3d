// Package resolvers is the workload of package robustness that has many channels resolve names while the sources of the
// names fail, and checks that all keep their backends.
//
// There is a trial for each resolver: a source, real backends that are added and removed, and channels. The
// sources are a DNS server, the etcd cluster of the run, and an API server in memory; they are
// dead, slow, restarted and compacted, refuse, or name nothing or a part of the backends, in an order
// that the seed gives. Of the channels some make calls, some go idle and connect again, some are closed and
// opened again, and now and then all are; in the middle of faults too.
//
// The checks: no channel is without backends once its builder knew some, the removal of most
// is not applied at once, after a fault each channel has the current list in time, calls do not
// fail, a source that is back is not overloaded, and nothing is left at the end.
package resolvers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/internal/fatal"
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
	// Clean means that nothing is left when all is closed.
	Clean robustness.Promise = "clean"
)

// workload has channels resolve names under faults of the sources. It collects what was found meanwhile, and checks what arrived at
// the sources.
func (c Config) workload(ctx context.Context, env *robustness.Env) error {
	began := time.Now()
	var stalls stalls
	watching, cancel := context.WithCancel(context.Background())
	ended := robustness.Go(1, func(int) { stalls.watch(watching) })
	env.Cleanup(func() error {
		cancel()
		<-ended
		return nil
	})
	var trials []*trial
	for i, name := range c.Resolvers {
		t := &trial{
			observer: &observer{resolver: name, bound: c.bound, stalls: &stalls, counts: env.Counts, views: map[*view]bool{}},
			cfg:      c, env: env, rng: env.Rand(uint64(i) << 16), backends: backends{servers: map[string]*backend{}},
		}
		trials = append(trials, t)
		if err := fatal.Catch(t.start); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
	}
	running, ctx := errgroup.WithContext(ctx)
	for _, t := range trials {
		running.Go(func() error { return t.run(ctx) })
	}
	if err := errors.Join(running.Wait(), env.Close()); err != nil {
		return err
	}
	ran := time.Since(began)
	for _, t := range trials {
		t.checkArrivals(ran)
		countTimes(env.Counts, t.resolver+" changes", t.seen)
		countTimes(env.Counts, t.resolver+" opened", t.opened)
		env.Verdict.Merge(t.verdict)
	}
	env.Counts.Add("process", "ms stalled", int(stalls.between(began, time.Now()).Milliseconds()))
	return nil
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
	counts.Add(subject, "seen by channels", len(times))
}
