// Package resolvers has many channels resolve names while the sources of the names fail, for as long
// as the configuration says, and checks that all keep their backends.
//
// [Run] has one trial for each resolver: a source, real backends that come and go, and channels. The
// sources are a DNS server, an etcd cluster of real processes, and an API server in memory; they are
// dead, slow, restarted and compacted, refuse, or name nothing or a part of the backends, in an order
// that the seed gives. Of the channels some make calls, some nap and are woken up, some are closed and
// opened again, and now and then all are; in the middle of faults too.
//
// The checks: no channel is without backends once its builder knew some, the disappearance of most
// is not taken over at once, after a fault each channel has the current list in time, calls do not
// fail, a source that is back is not overrun, and nothing is left at the end.
package resolvers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab/robustness"
)

// run is one run.
type run struct {
	*robustness.Log
	cfg    Config
	began  time.Time
	stalls stalls
	trials []*trial
	result Result
}

// Run takes the channels of each resolver through faults of its source. The error says why the run
// could not go on; a promise that was broken is no error, see the result's Verdict. The end of ctx
// ends the run early, which is no error either.
//
// When Run returns, all sources are gone with their processes, ports and files.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return Result{}, err
	}
	before := goleak.IgnoreCurrent()
	r := newRun(cfg)
	err = r.inTrials(ctx)
	if err == nil && r.result.Checked() {
		if left := robustness.Leaked(before); left != nil {
			r.result.Verdict.Add(Clean, "%v", left)
		}
	}
	return r.result, err
}

func newRun(cfg Config) *run {
	return &run{
		Log: robustness.NewLog(cfg.Log), cfg: cfg, began: time.Now(),
		result: Result{Outcome: robustness.Outcome{Seed: cfg.Seed, Members: cfg.Members}, Channels: cfg.Channels},
	}
}

// inTrials runs without a look at what is left.
func (r *run) inTrials(ctx context.Context) error {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { r.stalls.watch(done) })
	err := r.all(ctx)
	close(done)
	watching.Wait()
	r.result.Interrupted = ctx.Err() != nil
	return err
}

// all runs the trials side by side.
func (r *run) all(ctx context.Context) error {
	r.Note(fmt.Sprintf("starting %q with %d channels each, seed %d", r.cfg.Resolvers, r.cfg.Channels, r.cfg.Seed))
	for i, name := range r.cfg.Resolvers {
		t, err := r.trial(ctx, name, uint64(i))
		if err != nil {
			for _, t := range r.trials {
				err = errors.Join(err, t.source.close())
			}
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("start the source of %s: %w", name, err)
		}
		r.trials = append(r.trials, t)
	}
	limited, cancel := context.WithTimeout(ctx, r.cfg.Duration)
	defer cancel()
	results, errs := make([]Trial, len(r.trials)), make([]error, len(r.trials))
	var running sync.WaitGroup
	for i, t := range r.trials {
		running.Go(func() {
			results[i], errs[i] = t.run(limited)
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", t.resolver, errs[i])
				cancel()
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.result.Duration, r.result.Trials = r.Now(), results
	r.result.Stalled = r.stalls.between(r.began, time.Now())
	for _, t := range r.trials {
		r.result.Verdict.Merge(t.verdict)
	}
	return nil
}

// trial starts the source of a resolver.
func (r *run) trial(ctx context.Context, name string, stream uint64) (*trial, error) {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, stream<<32))
	var s source
	var err error
	switch name {
	case "dns":
		s, err = newDNS()
	case "etcd":
		s, err = newEtcd(ctx, r.cfg, rng, r.Note)
	case "kubernetes":
		s, err = newKubernetes()
	case "static":
		s = &staticSource{}
	}
	if err != nil {
		return nil, err
	}
	return &trial{
		observer: &observer{resolver: name, bound: r.cfg.Bound, stalls: &r.stalls, views: map[*view]bool{}},
		cfg:      r.cfg, rng: rng, source: s, note: r.Note,
		backends: backends{servers: map[string]*backend{}}, faults: map[string]int{},
	}, nil
}
