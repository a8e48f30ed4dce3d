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

// workload is one run.
type workload struct {
	cfg    Config
	began  time.Time
	stalls stalls
	trials []*trial
}

// Start starts the sources, the backends and the channels.
func (w *workload) Start(_ context.Context, env *robustness.Env) error {
	w.began = time.Now()
	watching, cancel := context.WithCancel(context.Background())
	ended := robustness.Go(1, func(int) { w.stalls.watch(watching) })
	env.Cleanup(func() error {
		cancel()
		<-ended
		return nil
	})
	for i, name := range w.cfg.Resolvers {
		t := &trial{
			observer: &observer{resolver: name, bound: w.cfg.bound, stalls: &w.stalls, counts: env.Counts, views: map[*view]bool{}},
			cfg:      w.cfg, env: env, rng: env.Rand(uint64(i) << 16), backends: backends{servers: map[string]*backend{}},
		}
		w.trials = append(w.trials, t)
		if err := fatal.Catch(t.start); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
	}
	return nil
}

// injectFaults runs the trials side by side, until ctx ends or one fails.
func (w *workload) injectFaults(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(w.trials))
	<-robustness.Go(len(w.trials), func(i int) {
		if err := w.trials[i].run(ctx); err != nil {
			errs[i] = fmt.Errorf("%s: %w", w.trials[i].resolver, err)
			cancel()
		}
	})
	return errors.Join(errs...)
}

// Stop implements [robustness.Workload]: the trials have ended.
func (w *workload) Stop() error { return nil }

// Settle implements [robustness.Workload]: a trial waits for its channels after each change.
func (w *workload) Settle() error { return nil }

// Check collects what was found while the run went on, and checks what arrived at the sources.
func (w *workload) Check(out *robustness.Outcome) error {
	ran := time.Since(w.began)
	for _, t := range w.trials {
		t.checkArrivals(ran)
		countTimes(out.Counts, t.resolver+" changes", t.seen)
		countTimes(out.Counts, t.resolver+" opened", t.opened)
		out.Verdict.Merge(t.verdict)
	}
	out.Counts.Add("process", "ms stalled", int(w.stalls.between(w.began, time.Now()).Milliseconds()))
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
