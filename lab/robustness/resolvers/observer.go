package resolvers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness"
)

// observer sees the lists that resolvers pass to channels, and compares them with the backends that serve.
type observer struct {
	*clock
	resolver string
	bound    time.Duration
	counts   *robustness.Counts

	mu         sync.Mutex
	verdict    robustness.Verdict
	known      bool            // a builder has had a list
	truth      map[string]bool // the backends
	good       time.Duration   // since when the source tells the truth
	falseSince time.Time       // since when the source leaves out most backends, which no channel may follow; zero if it does not
	views      map[*view]bool  // of open channels
	opened     []time.Duration // from the beginning of a channel to its list
	seen       []time.Duration // from a change to a channel that has all of it
}

// view is a channel between Build and Close, with its latest list. It stands between the two: the resolver sees it as the channel,
// and the channel as the resolver.
type view struct {
	resolver.ClientConn
	resolver.Resolver
	of *observer

	built    time.Duration
	listed   time.Duration // the first list, 0 before
	list     map[string]bool
	all      time.Duration // since when the list has all backends, 0 if it does not
	same     time.Duration // since when it has nothing else, 0 if it has
	reported bool
}

// violated adds a violation, and counts it while the run goes on.
func (o *observer) violated(p robustness.Promise, format string, args ...any) {
	o.verdict.Add(p, "%s: %s", o.resolver, fmt.Sprintf(format, args...))
	o.counts.Add("violations", string(p), 1)
}

// observedBuilder is a builder whose resolvers are observed.
type observedBuilder struct {
	resolver.Builder
	of *observer
}

// OverrideAuthority returns the authority of the wrapped builder, if that has one of its own.
func (b observedBuilder) OverrideAuthority(t resolver.Target) string {
	if own, ok := b.Builder.(resolver.AuthorityOverrider); ok {
		return own.OverrideAuthority(t)
	}
	return service
}

func (b observedBuilder) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	v := &view{ClientConn: cc, of: b.of, built: b.of.now()}
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
	now := o.now()
	list := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		list[e.Addresses[0].Addr] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(list) == 0 {
		o.violated(Serving, "a channel got an empty list; there are %d", len(o.truth))
	}
	if v.listed == 0 {
		o.checkWaitLocked(v)
		v.listed = now
		if o.known {
			o.opened = append(o.opened, now-v.built)
		}
	}
	v.list = list
	o.compareLocked(v, now)
	// The resolver's own clock runs on while the process does not.
	left := time.Since(o.falseSince)
	if missing := o.missing(v); missing > 0 && left < removalDelay {
		o.violated(Removal, "a channel gave up %d of %d backends %v after the source had left them out",
			missing, len(o.truth), left.Round(time.Millisecond))
	}
}

// checkWaitLocked reports a channel that waits too long for its first list.
func (o *observer) checkWaitLocked(v *view) {
	if waited := o.now() - v.built; o.known && v.listed == 0 && !v.reported && waited > o.bound {
		v.reported = true
		o.violated(Serving, "a channel that opened or woke up had no backends for %v, although its builder knew some",
			waited.Round(time.Millisecond))
	}
}

func (o *observer) missing(v *view) (n int) {
	for address := range o.truth {
		if !v.list[address] {
			n++
		}
	}
	return n
}

// compareLocked compares a list with the backends.
func (o *observer) compareLocked(v *view, now time.Duration) {
	all := v.listed > 0 && o.missing(v) == 0
	v.all = since(v.all, all, now)
	v.same = since(v.same, all && len(v.list) == len(o.truth), now)
}

// since returns since when a condition holds, 0 if it does not.
func since(had time.Duration, is bool, now time.Duration) time.Duration {
	switch {
	case !is:
		return 0
	case had > 0:
		return had
	default:
		return now
	}
}

// set replaces the backends. The source does not list the new ones yet.
func (o *observer) set(addresses []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.truth = make(map[string]bool, len(addresses))
	for _, address := range addresses {
		o.truth[address] = true
	}
	o.falseSince = time.Time{} // until the source lists them, no channel can have the new ones
	now := o.now()
	for v := range o.views {
		v.all, v.same = 0, 0
		o.compareLocked(v, now)
	}
}

// listedAll records that the source lists all backends from now on.
func (o *observer) listedAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.good = o.now()
}

// listedFalsely records that the source leaves out backends from now on.
func (o *observer) listedFalsely() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.falseSince = time.Now()
}

// behind returns how many channels do not yet list exactly the backends.
func (o *observer) behind() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for v := range o.views {
		o.checkWaitLocked(v)
		if v.same == 0 {
			n++
		}
	}
	return n
}

// evaluate checks how long the channels took. They may take extra longer than the bound.
func (o *observer) evaluate(after string, extra time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = true
	now, limit := o.now(), o.bound+extra
	for v := range o.views {
		from := max(o.good, v.built)
		all, same := since(v.all, true, now)-from, since(v.same, true, now)-from
		o.seen = append(o.seen, max(all, 0))
		switch {
		case all > limit:
			o.violated(Current, "%v after %s a channel has %d of %d backends; %v is allowed",
				all.Round(time.Millisecond), after, len(o.truth)-o.missing(v), len(o.truth), limit)
		case same > limit:
			o.violated(Current, "%v after %s a channel still has %d backends that are gone; %v is allowed",
				same.Round(time.Millisecond), after, len(v.list)-len(o.truth), limit)
		}
	}
}

// called records the end of a call.
func (o *observer) called(waited time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.Add(o.resolver+" calls", "made", 1)
	if err != nil && waited >= callTimeout {
		o.violated(Calls, "the calls of a channel failed for %v: %v", waited.Round(time.Millisecond), err)
	}
}

// clock measures how long this process has run. Time in which a busy machine did not run it does not count.
type clock struct{ ran atomic.Int64 }

const (
	clockTick = 5 * time.Millisecond
	// lateTick is the time after which a tick shows that the process did not run. It counts as one on time.
	lateTick = 5 * clockTick
)

// now returns how long the process has run, more than 0.
func (c *clock) now() time.Duration { return time.Duration(c.ran.Load()) + 1 }

func (c *clock) advance(elapsed time.Duration) {
	if elapsed >= lateTick {
		elapsed = clockTick
	}
	c.ran.Add(int64(elapsed))
}

// run advances the clock until ctx ends.
func (c *clock) run(ctx context.Context) {
	for last := time.Now(); pause.For(ctx, clockTick) == nil; {
		now := time.Now()
		c.advance(now.Sub(last))
		last = now
	}
}
