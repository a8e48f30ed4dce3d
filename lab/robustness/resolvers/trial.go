package resolvers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
)

const (
	// fewest and most bound the number of backends. No change removes half of them.
	fewest, most = 12, 23
	// shortestCalm and longestCalm bound the time between two faults, in which backends change.
	shortestCalm, longestCalm = 200 * time.Millisecond, 1200 * time.Millisecond
	// shortestHold and longestHold bound how long a fault is held; one in eight takes as long as
	// longOutage more.
	shortestHold, longestHold, longOutage = 300 * time.Millisecond, 2500 * time.Millisecond, 20 * time.Second
	// minPause and maxPause bound the time between two channels that are opened or leave idle mode.
	minPause, maxPause = 5 * time.Millisecond, 50 * time.Millisecond
	// closedTime is how long all channels are closed, now and then, in a fault.
	closedTime = 100 * time.Millisecond
	// awaitTick is the time between two checks while waiting for channels.
	awaitTick = 5 * time.Millisecond
	// fewArrivals is the number of requests in a second, for each channel, that never counts as an overload: the channels share a
	// builder.
	fewArrivals = 0.5
	// peakToMean bounds the requests in the busiest second by the mean.
	peakToMean = 10
)

// trial is the part of a run that belongs to one resolver.
type trial struct {
	*observer
	cfg      Config
	env      *robustness.Env
	rng      *rand.Rand
	source   *source
	arrived  log // at the source
	backends backends

	live     []string // backends that the source is to name
	channels []*channel
	returns  []time.Time // of the source
}

func newTrial(name string, cfg Config, env *robustness.Env, clock *clock, rng *rand.Rand) *trial {
	return &trial{
		observer: &observer{clock: clock, resolver: name, bound: cfg.bound, counts: env.Counts, views: map[*view]bool{}},
		cfg:      cfg, env: env, rng: rng, backends: backends{servers: map[string]*backend{}},
	}
}

// start starts the source and backends, opens channels, and waits until all have the list.
func (t *trial) start() {
	t.env.Cleanup(func() error { t.backends.stop(nil); return nil })
	t.source = sources[t.resolver](t)
	t.live = fatal.OK(t.backends.start((fewest + most) / 2))
	t.list()
	removal := removalDelay
	if t.cfg.noRemovalDelay {
		removal = -1
	}
	builder, targets, err := t.source.builder(removal)
	fatal.If(err)
	if t.cfg.wrap != nil {
		builder = t.cfg.wrap(builder, func() (resolver.Builder, error) {
			another, _, err := t.source.builder(removal)
			return another, err
		})
	}
	for i := range t.cfg.Channels {
		c := newChannel(i, observedBuilder{builder, t.observer}, targets, t.backends.dial, t.rng)
		fatal.If(c.openLocked())
		t.channels = append(t.channels, c)
		t.env.Cleanup(c.close)
	}
	t.await("the start", t.cfg.giveUpAfter)
	t.seen = nil
}

// run uses the channels and injects faults into the source until ctx ends.
func (t *trial) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var used error
	var background sync.WaitGroup
	background.Go(func() {
		used = fatal.Catch(func() { t.useChannels(ctx, rand.New(rand.NewPCG(t.cfg.Seed, uint64(len(t.channels))))) })
	})
	for i, c := range t.channels {
		if c.kind == calling {
			background.Go(func() { t.keepCalling(ctx, c, rand.New(rand.NewPCG(t.cfg.Seed, uint64(i)))) })
		}
	}
	err := fatal.Catch(func() { t.injectFaults(ctx) })
	cancel()
	background.Wait()
	if err = errors.Join(err, used); err != nil {
		return fmt.Errorf("%s: %w", t.resolver, err)
	}
	return nil
}

// useChannels makes channels leave idle mode and reopens them until ctx ends.
func (t *trial) useChannels(ctx context.Context, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, minPause, maxPause)) == nil {
		switch c := t.channels[rng.IntN(len(t.channels))]; c.kind {
		case idling:
			c.exitIdle()
		case reopened:
			reopen([]*channel{c}, 0)
		case steady, calling:
		}
	}
}

// reopen closes channels, and opens them again after a time.
func reopen(channels []*channel, after time.Duration) {
	for _, c := range channels {
		c.mu.Lock()
		defer c.mu.Unlock()
		fatal.If(c.closeLocked())
	}
	time.Sleep(after)
	for _, c := range channels {
		fatal.If(c.openLocked())
	}
}

// injectFaults changes the backends and injects faults until ctx ends.
func (t *trial) injectFaults(ctx context.Context) {
	if t.source.faults == nil {
		<-ctx.Done()
		return
	}
	all := slices.DeleteFunc(append(falseLists(), t.source.faults...), func(d sourceFault) bool {
		return t.cfg.only != "" && d.name != t.cfg.only
	})
	for {
		t.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, d := range all {
			if pause.For(ctx, pace.Between(t.rng, shortestCalm, longestCalm)) != nil {
				return
			}
			t.change()
			t.await("a change", 0)
			t.inject(ctx, d)
		}
	}
}

// inject injects a fault into the source for a while. Then the backends change, so that a channel with the
// new list has an answer of the source after the fault.
func (t *trial) inject(ctx context.Context, d sourceFault) {
	t.counts.Add(t.resolver+" faults", d.name, 1)
	hold := pace.Between(t.rng, shortestHold, longestHold)
	if d.falseList == nil && t.rng.IntN(8) == 0 {
		hold += pace.Between(t.rng, 0, longOutage)
	}
	reopens := t.rng.IntN(4) == 0
	what := fmt.Sprintf("%s for %v", d.name, hold.Round(time.Millisecond))
	t.env.Note(t.resolver + ": " + what)
	d.begin()
	if d.falseList != nil {
		if !reopens {
			t.listedFalsely()
		}
		t.source.list(d.falseList(t.live))
	}
	_ = pause.For(ctx, hold/2)
	if reopens {
		reopen(t.channels, closedTime)
	}
	if !d.keepsList {
		t.change()
	}
	_ = pause.For(ctx, hold/2)
	d.end()
	t.returns = append(t.returns, time.Now())
	t.change()
	t.await(what, d.extraTime)
}

// change adds, removes or replaces backends, of which at least one is new, and tells the source. Those that are removed serve until
// all channels have the list.
func (t *trial) change() {
	next := slices.Clone(t.live)
	t.rng.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	kept := min(len(next)-t.rng.IntN(len(next)/3+1), most-1)
	fresh := max(fewest-kept, 1) + t.rng.IntN(most-max(fewest, kept+1)+1)
	t.live = slices.Concat(next[:kept], fatal.OK(t.backends.start(fresh)))
	t.counts.Add(t.resolver+" changes", "made", 1)
	t.list()
}

// list passes the backends to the source.
func (t *trial) list() {
	t.set(t.live)
	t.source.list(t.live)
	t.listedAll()
}

// await waits until all channels have the list, and reports those that take too long: extra more than usual is allowed.
func (t *trial) await(after string, extra time.Duration) {
	for deadline := time.Now().Add(t.cfg.giveUpAfter); t.behind() > 0 && time.Now().Before(deadline); {
		time.Sleep(awaitTick)
	}
	t.evaluate(after, t.source.extraTime+extra)
	t.backends.stop(t.live)
}

// checkArrivals checks what arrived at the source in the second after a return.
func (t *trial) checkArrivals(began time.Time) {
	ran := time.Since(began)
	total := t.arrived.within(began, ran)
	mean := float64(total) / ran.Seconds()
	t.counts.Add(t.resolver+" arrivals", "in all", total)
	for _, at := range t.returns {
		second := t.arrived.within(at, time.Second)
		t.counts.Max(t.resolver+" arrivals", "in a second after a return at most", second)
		if float64(second) > max(fewArrivals*float64(t.cfg.Channels), peakToMean*mean) {
			t.violated(Spread, "%d requests arrived in the second after a return of the source; the mean is %.1f a second", second, mean)
		}
	}
}
