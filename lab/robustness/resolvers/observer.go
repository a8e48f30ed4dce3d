package resolvers

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/robustness"
)

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

// view is a channel between Build and Close, with its latest list. It stands between the two: the resolver sees it as the channel,
// and the channel as the resolver.
type view struct {
	resolver.ClientConn
	resolver.Resolver
	of *observer

	built    time.Time
	list     map[string]bool // nil before the first one
	reported bool
}

// violatedLocked adds a violation, and counts it while the run goes on.
func (o *observer) violatedLocked(p robustness.Promise, format string, args ...any) {
	o.verdict.Add(p, "%s: %s", o.resolver, fmt.Sprintf(format, args...))
	o.counts.Add("violations", string(p), 1)
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

// checkWaitLocked reports a channel that waits too long for its first list.
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
