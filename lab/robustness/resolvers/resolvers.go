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
	"fmt"
	"maps"
	"slices"
	"sync"
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
	// wrap and removalDelay make resolvers break promises, in tests. another makes one more builder.
	wrap         func(b resolver.Builder, another func() (resolver.Builder, error)) resolver.Builder
	removalDelay time.Duration // their MassRemovalDelay, by default the constant of that name
	// only is the name of the one fault of sources that is injected. Default all.
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

// workload runs the trials, collects what they found, and checks what arrived at the sources.
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

// countTimes counts the quantiles of times, in milliseconds.
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

// observer sees the lists that resolvers pass to channels, and compares them with the backends that serve.
type observer struct {
	resolver string
	bound    time.Duration
	counts   *robustness.Counts

	mu         sync.Mutex
	verdict    robustness.Verdict
	known      bool            // a builder has had a list
	truth      map[string]bool // the backends
	good       time.Time       // since when the source tells the truth
	falseSince time.Time       // since when the source leaves out most backends, which no channel may follow; zero if it does not
	views      map[*view]bool  // of open channels
	opened     []time.Duration // from the beginning of a channel to its list
	arrived    []time.Time     // requests and connections at the source
}

// violatedLocked adds a violation, and counts it while the run goes on.
func (o *observer) violatedLocked(p robustness.Promise, format string, args ...any) {
	o.verdict.Add(p, "%s: %s", o.resolver, fmt.Sprintf(format, args...))
	o.counts.Add("violations", string(p), 1)
}

// arrive records that a request or a connection has arrived at the source.
func (o *observer) arrive(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrived = append(o.arrived, at)
}

// arrivedLocked returns how many arrived within a time from a moment on.
func (o *observer) arrivedLocked(from time.Time, length time.Duration) (n int) {
	for _, at := range o.arrived {
		if since := at.Sub(from); since >= 0 && since < length {
			n++
		}
	}
	return n
}

// view is a channel between Build and Close, with its latest list. The resolver sees it as the channel, and the channel as the
// resolver.
type view struct {
	resolver.ClientConn
	resolver.Resolver
	of *observer

	built    time.Time
	list     map[string]bool // nil before the first one
	reported bool
}

// observedBuilder is a builder whose resolvers are observed.
type observedBuilder struct {
	resolver.Builder
	of *observer
}

func (b observedBuilder) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	v := &view{ClientConn: cc, of: b.of, built: time.Now()}
	b.of.mu.Lock()
	b.of.views[v] = true
	b.of.mu.Unlock()
	var err error
	if v.Resolver, err = b.Builder.Build(t, v, opts); err != nil {
		b.of.forget(v)
		return nil, err
	}
	return v, nil
}

func (v *view) UpdateState(s resolver.State) error {
	v.of.update(v, s.Endpoints)
	return v.ClientConn.UpdateState(s)
}

func (v *view) Close() {
	v.Resolver.Close()
	v.of.forget(v)
}

// forget records the end of a channel.
func (o *observer) forget(v *view) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checkWaitLocked(v)
	delete(o.views, v)
}

// update records a list.
func (o *observer) update(v *view, endpoints []resolver.Endpoint) {
	list := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		list[e.Addresses[0].Addr] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(list) == 0 {
		o.violatedLocked(Serving, "a channel got an empty list; there are %d", len(o.truth))
	}
	o.checkWaitLocked(v)
	if v.list == nil && o.known {
		o.opened = append(o.opened, time.Since(v.built))
	}
	v.list = list
	missing := maps.Clone(o.truth)
	maps.DeleteFunc(missing, func(address string, _ bool) bool { return list[address] })
	if left := time.Since(o.falseSince); len(missing) > 0 && left < removalDelay {
		o.violatedLocked(Removal, "a channel gave up %d of %d backends %v after the source had left them out",
			len(missing), len(o.truth), left.Round(time.Millisecond))
	}
}

// checkWaitLocked reports a channel that has waited too long for its first list, once.
func (o *observer) checkWaitLocked(v *view) {
	if waited := time.Since(v.built); o.known && v.list == nil && !v.reported && waited > o.bound {
		v.reported = true
		o.violatedLocked(Serving, "a channel that opened or woke up had no backends for %v, although its builder knew some",
			waited.Round(time.Millisecond))
	}
}

// list replaces the backends, which the source lists when tell has returned.
func (o *observer) list(addresses []string, tell func([]string)) {
	o.mu.Lock()
	o.truth = make(map[string]bool, len(addresses))
	for _, address := range addresses {
		o.truth[address] = true
	}
	o.falseSince = time.Time{} // until the source lists them, no channel can have the new ones
	o.mu.Unlock()
	tell(addresses)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.good = time.Now()
}

// listedFalsely records that the source leaves out backends from now on.
func (o *observer) listedFalsely() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.falseSince = time.Now()
}

// settled reports whether all channels list exactly the backends, or one takes too long to: that is a violation.
func (o *observer) settled(after string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	behind, longest := 0, time.Duration(0)
	for v := range o.views {
		o.checkWaitLocked(v)
		if !maps.Equal(v.list, o.truth) {
			behind++
			longest = max(longest, min(time.Since(o.good), time.Since(v.built)))
		}
	}
	if longest > o.bound {
		o.violatedLocked(Current, "%v after %s %d of %d channels do not list the backends", longest.Round(time.Millisecond), after, behind, len(o.views))
		return true
	}
	o.known = o.known || behind == 0
	return behind == 0
}

// called records the end of a call.
func (o *observer) called(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.Add(o.resolver+" calls", "made", 1)
	if err != nil {
		o.violatedLocked(Calls, "the calls of a channel failed for %v: %v", callTimeout, err)
	}
}
