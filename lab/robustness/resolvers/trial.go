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
	// fewest and most bound the number of backends.
	fewest, most = 8, 24
	// shortestCalm and longestCalm bound the time between two faults, in which backends change.
	shortestCalm, longestCalm = 200 * time.Millisecond, 1200 * time.Millisecond
	// shortestHold and longestHold bound how long a fault is held; one in eight takes as long as
	// longOutage more.
	shortestHold, longestHold, longOutage = 300 * time.Millisecond, 2500 * time.Millisecond, 20 * time.Second
	// minPause and maxPause bound the time between two channels that are opened or leave idle mode.
	minPause, maxPause = 5 * time.Millisecond, 50 * time.Millisecond
	// closedTime is how long all channels are closed, now and then, in a fault.
	closedTime = 100 * time.Millisecond
	// awaitTick is the time between two looks at channels that are waited for.
	awaitTick = 5 * time.Millisecond
	// fewArrivals is how many requests of all channels in a second are few, for each: with
	// one builder, three tenths.
	fewArrivals = 0.3
	// peakToMean bounds the requests in the busiest time by the mean.
	peakToMean = 3
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

	live        []string // backends that the source is to name
	sizes       []size   // of live, lately
	channels    []*channel
	lifecycleMu sync.Mutex  // held while channels are opened and closed
	returns     []time.Time // of the source
}

// size is the number of backends until a moment.
type size struct {
	until time.Time
	n     int
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

// start starts the source and backends, opens channels, and waits until all have the list.
func (t *trial) start() {
	t.env.Cleanup(func() error { t.backends.stop(nil); return nil })
	var err error
	if t.source, err = t.newSource(); t.source != nil {
		t.env.Cleanup(t.source.close)
	}
	fatal.If(err)
	t.live = fatal.OK(t.backends.start((fewest + most) / 2))
	t.set(t.live)
	t.source.list(t.live)
	t.openAll()
	t.listedAll(t.cfg.giveUpAfter, 0)
	t.await("the start")
	t.seen = nil
}

func (t *trial) newSource() (*source, error) {
	switch t.resolver {
	case "dns":
		return newDNS(&t.arrived)
	case "etcd":
		return newEtcd(t.env, t.rng, &t.arrived)
	case "kubernetes":
		return newKubernetes(&t.arrived)
	default:
		return newStatic(), nil
	}
}

// openAll makes a builder and opens the channels.
func (t *trial) openAll() {
	removal := removalDelay
	if t.cfg.noRemovalDelay {
		removal = -1
	}
	builder, targets, err := t.source.builder(removal)
	fatal.If(err)
	for i := range t.cfg.Channels {
		wrapped := t.cfg.wrap(builder, func() (resolver.Builder, error) {
			another, _, err := t.source.builder(removal)
			return another, err
		})
		c := newChannel(i, t.wrap(wrapped), targets, t.backends.dial, t.rng)
		t.channels = append(t.channels, c)
		t.env.Cleanup(c.close)
		fatal.If(c.open())
	}
}

// useChannels makes channels leave idle mode and reopens them until ctx ends.
func (t *trial) useChannels(ctx context.Context, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, minPause, maxPause)) == nil {
		t.use(t.channels[rng.IntN(len(t.channels))])
	}
}

func (t *trial) use(c *channel) {
	t.lifecycleMu.Lock()
	defer t.lifecycleMu.Unlock()
	switch c.kind {
	case idling:
		c.exitIdle()
	case reopened:
		fatal.If(errors.Join(c.close(), c.open()))
	case steady, calling:
	}
}

// reopenAll closes all channels, and opens them again.
func (t *trial) reopenAll() {
	t.lifecycleMu.Lock()
	defer t.lifecycleMu.Unlock()
	for _, c := range t.channels {
		fatal.If(c.close())
	}
	time.Sleep(closedTime)
	for _, c := range t.channels {
		fatal.If(c.open())
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
			t.listChange(0, "a change")
			t.inject(ctx, d)
		}
	}
}

// listChange changes the backends, tells the source, and waits until all channels have them.
func (t *trial) listChange(extra time.Duration, after string) {
	removal := t.changeAndList()
	t.listedAll(t.source.extraTime+extra, removal)
	t.await(after)
	t.backends.stop(t.live)
}

// changeAndList changes the backends, and tells the source. It returns how much longer the resolvers may keep those that
// are removed.
func (t *trial) changeAndList() (removal time.Duration) {
	removal = t.change()
	t.counts.Add(t.resolver+" changes", "made", 1)
	t.set(t.live)
	t.source.list(t.live)
	return removal
}

// await waits until all channels have the list, and reports those that take too long.
func (t *trial) await(after string) {
	for deadline := time.Now().Add(t.cfg.giveUpAfter); t.behind() > 0 && time.Now().Before(deadline); {
		time.Sleep(awaitTick)
	}
	t.evaluate(after)
}

// inject injects a fault into the source for a while. Then the backends change, so that a channel with the
// new list has an answer of the source after the fault.
func (t *trial) inject(ctx context.Context, d sourceFault) {
	t.counts.Add(t.resolver+" faults", d.name, 1)
	hold := pace.Between(t.rng, shortestHold, longestHold)
	if d.falseList == nil && t.rng.IntN(8) == 0 {
		hold += pace.Between(t.rng, 0, longOutage)
	}
	reopen := t.rng.IntN(4) == 0
	t.env.Note(fmt.Sprintf("%s: %s, for %v", t.resolver, d.name, hold.Round(time.Millisecond)))
	t.hold(ctx, d, hold, reopen)
	if err := d.end(); err != nil {
		fatal.If(fmt.Errorf("end %s: %w", d.name, err))
	}
	t.returns = append(t.returns, time.Now())
	t.listChange(d.extraTime, fmt.Sprintf("%s for %v", d.name, hold.Round(time.Millisecond)))
}

// hold begins a fault, holds it, and returns.
func (t *trial) hold(ctx context.Context, d sourceFault, hold time.Duration, reopen bool) {
	if err := d.begin(); err != nil {
		t.env.Note(err.Error())
	}
	if d.falseList != nil {
		t.listedFalsely(!reopen)
		t.source.list(d.falseList(t.live))
	}
	_ = pause.For(ctx, hold/2)
	if reopen {
		t.reopenAll()
	}
	if d.changeable {
		t.changeAndList()
	}
	_ = pause.For(ctx, hold/2)
}

// change changes the backends, of which at least one is new: some are added, removed, or
// replaced. Those that are removed serve until no channel uses them. It returns how much longer
// the resolvers may keep these.
func (t *trial) change() (removal time.Duration) {
	now := time.Now()
	t.sizes = slices.DeleteFunc(append(t.sizes, size{now, len(t.live)}), func(s size) bool {
		return now.Sub(s.until) > 2*removalDelay+longOutage
	})
	n := len(t.live)
	add, remove := 1+t.rng.IntN(2), 0
	switch t.rng.IntN(5) {
	case 0: // roll one over
		add, remove = 1, 1
	case 1:
		remove = 2 + t.rng.IntN(2)
	case 2:
		add = n / 2
	case 3:
		remove = n / 3
	}
	if n+add-remove < fewest {
		remove = 0
	}
	if n+add-remove > most {
		remove = n / 2
	}
	fresh := fatal.OK(t.backends.start(add))
	next := slices.Clone(t.live)
	t.rng.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	t.live = slices.Concat(next[remove:], fresh)
	for _, s := range t.sizes {
		if 2*len(t.live) <= s.n {
			return 2 * removalDelay
		}
	}
	return 0
}

// checkArrivals checks what arrived at the source: the most in the second after a return, and in a tenth of that.
func (t *trial) checkArrivals(ran time.Duration) {
	arrived := t.arrived.sorted()
	mean := float64(len(arrived)) / ran.Seconds()
	subject := t.resolver + " arrivals"
	t.counts.Add(subject, "in all", len(arrived))
	for _, at := range t.returns {
		second := busiest(arrived, at, time.Second, time.Second)
		tenth := busiest(arrived, at, time.Second, time.Second/10)
		t.counts.Max(subject, "in a second after a return at most", second)
		t.counts.Max(subject, "in a tenth of it at most", tenth)
		few := float64(second) <= fewArrivals*float64(t.cfg.Channels)
		spread := float64(tenth) <= peakToMean*float64(second)/10
		if !few && !spread && float64(second) > peakToMean*mean {
			t.violated(Spread, "%d requests arrived in the second after a return of the source, %d of them in a tenth of it; the mean is %.1f a second",
				second, tenth, mean)
		}
	}
}

// busiest returns the most that arrived in any window of some length that begins within a time
// from a moment on.
func busiest(arrived []time.Time, from time.Time, within, window time.Duration) int {
	first, _ := slices.BinarySearchFunc(arrived, from, time.Time.Compare)
	peak := 0
	for i := first; i < len(arrived) && arrived[i].Sub(from) < within; i++ {
		end, _ := slices.BinarySearchFunc(arrived, arrived[i].Add(window), time.Time.Compare)
		peak = max(peak, end-i)
	}
	return peak
}
