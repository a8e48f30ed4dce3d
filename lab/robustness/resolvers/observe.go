package resolvers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/robustness"
)

// observer sees what resolvers tell channels, and holds it against the truth.
type observer struct {
	resolver string
	bound    time.Duration
	stalls   *stalls
	counts   *robustness.Counts

	mu         sync.Mutex
	verdict    robustness.Verdict
	known      bool            // a builder has had a list
	truth      map[string]bool // the backends
	good       time.Time       // since when the source tells the truth, zero while it does not
	extra      time.Duration   // how much longer than bound a change takes
	removal    time.Duration   // how much longer what was removed may stay
	falseSince time.Time       // since when the source leaves out most backends, zero if it does not
	strict     bool            // no channel may take over any of it
	views      map[*view]bool  // of open channels
	opened     []time.Duration // from the beginning of a channel to its list
	seen       []time.Duration // from a change to a channel that has all of it
}

// view is what a channel knows between Build and Close.
type view struct {
	built    time.Time
	listed   time.Time // the first list, zero before
	list     map[string]bool
	all      time.Time // since when the list has all backends
	same     time.Time // since when it has nothing else
	reported bool
}

// violated adds a violation, and counts it while the run goes on.
func (o *observer) violated(p robustness.Promise, format string, args ...any) {
	o.verdict.Add(p, "%s: %s", o.resolver, fmt.Sprintf(format, args...))
	o.counts.Add("violations", string(p), 1)
}

// running returns the time between two moments without that in which this process did not run.
func (o *observer) running(from, to time.Time) time.Duration {
	return to.Sub(from) - o.stalls.between(from, to)
}

// wrap returns a builder whose resolvers are observed.
func (o *observer) wrap(b resolver.Builder) resolver.Builder { return observedBuilder{b, o} }

type observedBuilder struct {
	resolver.Builder
	o *observer
}

// OverrideAuthority is the resolver's own, if it has an opinion.
func (b observedBuilder) OverrideAuthority(t resolver.Target) string {
	if own, ok := b.Builder.(resolver.AuthorityOverrider); ok {
		return own.OverrideAuthority(t)
	}
	return service
}

func (b observedBuilder) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	v := &view{built: time.Now()}
	b.o.mu.Lock()
	b.o.views[v] = true
	b.o.mu.Unlock()
	r, err := b.Builder.Build(t, observedConn{cc, b.o, v}, opts)
	if err != nil {
		b.o.forget(v)
		return nil, err
	}
	return observedResolver{r, b.o, v}, nil
}

type observedConn struct {
	resolver.ClientConn
	o *observer
	v *view
}

func (c observedConn) UpdateState(s resolver.State) error {
	c.o.update(c.v, s.Endpoints)
	return c.ClientConn.UpdateState(s)
}

type observedResolver struct {
	resolver.Resolver
	o *observer
	v *view
}

func (r observedResolver) Close() {
	r.Resolver.Close()
	r.o.forget(r.v)
}

// forget takes the end of a channel in.
func (o *observer) forget(v *view) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waitsLocked(v)
	delete(o.views, v)
}

// update takes a list in.
func (o *observer) update(v *view, endpoints []resolver.Endpoint) {
	now := time.Now()
	list := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		list[e.Addresses[0].Addr] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(list) == 0 {
		o.violated(Serving, "a channel got an empty list; there are %d", len(o.truth))
	}
	if v.listed.IsZero() {
		o.waitsLocked(v)
		v.listed = now
		if o.known {
			o.opened = append(o.opened, o.running(v.built, now))
		}
	}
	v.list = list
	o.compareLocked(v, now)
	if missing := o.missing(v); o.strict && missing > 0 && now.Sub(o.falseSince) < removalDelay {
		o.violated(Removal, "a channel gave up %d of %d backends %v after the source had left them out",
			missing, len(o.truth), now.Sub(o.falseSince).Round(time.Millisecond))
	}
}

// waitsLocked finds a channel that waits for its first list for too long.
func (o *observer) waitsLocked(v *view) {
	if !o.known || !v.listed.IsZero() || v.reported {
		return
	}
	now := time.Now()
	if waited := o.running(v.built, now); waited > o.bound {
		v.reported = true
		o.violated(Serving, "a channel that opened or woke up had no backends for %v, although its builder knew some",
			waited.Round(time.Millisecond))
	}
}

func (o *observer) missing(v *view) int {
	n := 0
	for address := range o.truth {
		if !v.list[address] {
			n++
		}
	}
	return n
}

// compareLocked holds a list against the truth.
func (o *observer) compareLocked(v *view, now time.Time) {
	all := !v.listed.IsZero() && o.missing(v) == 0
	same := all && len(v.list) == len(o.truth)
	note := func(at *time.Time, is bool) {
		if !is {
			*at = time.Time{}
		} else if at.IsZero() {
			*at = now
		}
	}
	note(&v.all, all)
	note(&v.same, same)
}

// set sets what is true, which the source does not tell yet.
func (o *observer) set(addresses []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.truth = make(map[string]bool, len(addresses))
	for _, address := range addresses {
		o.truth[address] = true
	}
	// Until the source lists them, no channel can have the new ones.
	o.good, o.falseSince, o.strict = time.Time{}, time.Time{}, false
	now := time.Now()
	for v := range o.views {
		v.all, v.same = time.Time{}, time.Time{}
		o.compareLocked(v, now)
	}
}

// listedAll records that the source lists all backends from now on. Changes take extra longer than the
// bound, and removals that are many removal beyond that.
func (o *observer) listedAll(extra, removal time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.good, o.extra, o.removal = time.Now(), extra, removal
}

// listedFalsely records that the source leaves out backends from now on.
func (o *observer) listedFalsely(strict bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.falseSince, o.strict = time.Now(), strict
}

// behind returns how many channels do not have the truth yet, and nothing else.
func (o *observer) behind() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for v := range o.views {
		o.waitsLocked(v)
		if v.same.IsZero() {
			n++
		}
	}
	return n
}

// evaluate holds the channels against the time that they may take.
func (o *observer) evaluate(after string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = true
	for v := range o.views {
		since := o.good
		if v.built.After(since) {
			since = v.built
		}
		all, same := o.lag(since, v.all), o.lag(since, v.same)
		o.seen = append(o.seen, all)
		switch limit := o.bound + o.extra; {
		case all > limit:
			o.violated(Current, "%v after %s a channel has %d of %d backends; %v is allowed",
				all.Round(time.Millisecond), after, len(o.truth)-o.missing(v), len(o.truth), limit)
		case same > limit+o.removal:
			o.violated(Current, "%v after %s a channel still has %d backends that are gone; %v is allowed",
				same.Round(time.Millisecond), after, len(v.list)-len(o.truth), limit+o.removal)
		}
	}
}

// lag returns how long after a moment another one came, or has not come until now.
func (o *observer) lag(since, at time.Time) time.Duration {
	if at.IsZero() {
		at = time.Now()
	}
	if !at.After(since) {
		return 0
	}
	return o.running(since, at)
}

// called takes the end of a call in.
func (o *observer) called(began time.Time, attempts int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts.Add(o.resolver+" calls", "made", 1)
	o.counts.Add(o.resolver+" calls", "attempts repeated", max(attempts-1, 0))
	if waited := o.running(began, time.Now()); err != nil && waited >= callTimeout {
		o.violated(Calls, "the calls of a channel failed for %v: %v", waited.Round(time.Millisecond), err)
	}
}

// stalls are times in which this process did not run.
type stalls struct {
	mu  sync.Mutex
	all []stall
}

type stall struct {
	end  time.Time
	long time.Duration
}

const (
	stallTick  = 5 * time.Millisecond
	leastStall = 20 * time.Millisecond
)

// watch notes stalls until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	ticks := time.NewTicker(stallTick)
	defer ticks.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := time.Now()
		if late := now.Sub(last) - stallTick; late >= leastStall {
			s.mu.Lock()
			s.all = append(s.all, stall{now, late})
			s.mu.Unlock()
		}
		last = now
	}
}

// between returns how long this process did not run between two moments.
func (s *stalls) between(from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum time.Duration
	for i := len(s.all) - 1; i >= 0 && s.all[i].end.After(from); i-- {
		begin, end := s.all[i].end.Add(-s.all[i].long), s.all[i].end
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(end.Sub(begin), 0)
	}
	return sum
}
