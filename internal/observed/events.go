// Package observed passes the events of a balancer policy to an observe.Observer, and its state to a
// report.
package observed

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// events passes the events of a policy to an observer.
type events struct {
	observer observe.Observer
	picks    observe.Observer     // of picks; nil if there is none
	calls    observe.CallObserver // nil if picks is not one
	name     func(*balancer.Endpoint) string
	siblings func(*balancer.Endpoint) []*balancer.Endpoint

	// overflowed is called with the number of states that the observer did not receive in time.
	overflowed func(n int)

	mu      sync.Mutex
	ejected map[*balancer.Endpoint]time.Time
	stale   map[*balancer.Endpoint]bool // the first of each list that is compared at the end of a pause
	// waiting are states for the observer, in order. One goroutine delivers them while there are
	// any: a goroutine that notes evidence, perhaps for other clients too, does not wait for an observer.
	waiting        []func()
	delivering     bool
	limit, dropped int
}

// maxWaiting bounds the states that wait for an observer. Two of each endpoint of a longer list may wait: all may change at
// once.
const maxWaiting = 1000

// Events returns nil for no observer. Picks and the ends of attempts go to picks. name returns the name of an endpoint for the observer.
// States reach the observer one at a time and in order. If it blocks until too many wait, further
// ones are dropped, and overflowed, if not nil, is called with their number once it goes on.
func Events(o, picks observe.Observer, name func(*balancer.Endpoint) string, overflowed func(n int)) balancer.Events {
	if o == nil {
		return nil
	}
	picks = observe.Multi(picks) // nil for one that does nothing
	return &events{
		observer: o, picks: picks, calls: observe.Calls(picks), name: name, siblings: (*balancer.Endpoint).Siblings, overflowed: overflowed,
		ejected: make(map[*balancer.Endpoint]time.Time), stale: make(map[*balancer.Endpoint]bool), limit: maxWaiting,
	}
}

// addLocked lets the observer receive a state.
func (e *events) addLocked(event func()) {
	if len(e.waiting) >= e.limit {
		e.dropped++
		return
	}
	e.waiting = append(e.waiting, event)
	if !e.delivering {
		e.delivering = true
		go e.deliver()
	}
}

// deliver passes the states on until none waits.
func (e *events) deliver() {
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			dropped := e.dropped
			e.delivering, e.dropped = false, 0
			e.mu.Unlock()
			if dropped > 0 && e.overflowed != nil {
				e.overflowed(dropped)
			}
			return
		}
		event := e.waiting[0]
		e.waiting = e.waiting[1:]
		e.mu.Unlock()
		event()
	}
}

var connClasses = [...]observe.ConnClass{
	balancer.Calls: observe.ConnCalls, balancer.Streams: observe.ConnStreams, balancer.Bulk: observe.ConnBulk,
}

// IgnoresCalls tells the policy that it need not call Picked and Ended.
func (e *events) IgnoresCalls() bool { return e.picks == nil }

// Picked implements balancer.Events.
func (e *events) Picked(ep *balancer.Endpoint, call balancer.Call) {
	if e.picks != nil { // a type that wraps these Events may not have IgnoresCalls
		e.picks.Picked(observe.Pick{Endpoint: e.name(ep), Method: call.Method, Conn: connClasses[call.Conn]})
	}
}

// Ended implements balancer.Events.
func (e *events) Ended(ep *balancer.Endpoint, call balancer.Call, took time.Duration, err error) {
	if e.calls != nil {
		e.calls.Attempted(observe.Attempt{
			Endpoint: e.name(ep), Method: call.Method, Conn: connClasses[call.Conn], Err: err, Took: took,
		})
	}
}

// Closed implements balancer.Events. The ends of calls and streams have their own events.
func (*events) Closed(*balancer.Endpoint, error) {}

// Changed implements balancer.Events.
func (e *events) Changed(ep *balancer.Endpoint, change health.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change.Endpoint = e.name(ep)
	e.addLocked(func() { e.observer.StateChanged(change) })
	if isDoubted(change.To) {
		e.updateLater(ep, change.Evidence.At)
	}
	e.updateAllLocked(ep)
}

// updateLater updates whether the endpoint is used each time longDoubt has passed, while it is in the
// doubted state that began at since.
func (e *events) updateLater(ep *balancer.Endpoint, since time.Time) {
	time.AfterFunc(longDoubt, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if st := ep.Health(); isDoubted(st.State) && st.Since.Equal(since) {
			e.updateAllLocked(ep)
			e.updateLater(ep, since)
		}
	})
}

// updatePause is the pause before an update for each hundred endpoints, as between two pickers of a policy: what an update
// costs grows with their number, and so do the events that call for one.
const updatePause = time.Millisecond

// updateAllLocked updates whether the endpoints of a client are used: at once, or at the end of a pause for all changes within it.
func (e *events) updateAllLocked(ep *balancer.Endpoint) {
	siblings := e.siblings(ep)
	e.limit = max(e.limit, 2*len(siblings))
	pause := time.Duration(len(siblings)/100) * updatePause
	switch {
	case pause == 0:
		e.compareLocked(siblings)
	case !e.stale[siblings[0]]:
		e.stale[siblings[0]] = true
		time.AfterFunc(pause, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.stale, siblings[0])
			e.compareLocked(e.siblings(siblings[0]))
		})
	}
}

// compareLocked updates whether endpoints are used. It forgets those that were removed, also with a policy that was replaced.
func (e *events) compareLocked(siblings []*balancer.Endpoint) {
	maps.DeleteFunc(e.ejected, func(ep *balancer.Endpoint, _ time.Time) bool { return ep.State() == health.Draining })
	var others fitness
	for _, s := range siblings {
		st := s.Health()
		good := st.State.Usable() && !isDoubted(st.State)
		others.fit = others.fit || st.State.Usable()
		others.good = others.good || good
		others.steady = others.steady || good && time.Since(st.Since) >= longDoubt
	}
	for _, s := range siblings {
		e.updateLocked(s, others)
	}
}

// longDoubt is how long others are preferred to an endpoint before it counts as ejected.
const longDoubt = 30 * time.Second

// isDoubted reports whether other endpoints are preferred to one in the state.
func isDoubted(s health.State) bool { return s == health.Suspected || s == health.Slow }

// fitness says whether any endpoint is fit, whether any is fit and not doubted (good), and whether any has
// been good for long (steady): in an overload they are doubted in turn.
type fitness struct{ fit, good, steady bool }

// updateLocked updates whether an endpoint is used: an unfit one is not while another one is fit, and one
// that has been doubted for long, or by many calls, is not while another one is not doubted.
func (e *events) updateLocked(ep *balancer.Endpoint, others fitness) {
	now := time.Now()
	status := ep.Health()
	since, was := e.ejected[ep]
	long := others.steady && now.Sub(status.Since) >= longDoubt
	doubted := isDoubted(status.State) && (was || status.Evidence.Often || long)
	out := others.fit && !status.State.Usable() || others.good && doubted
	switch {
	case out && !was:
		e.ejected[ep] = now
		ejection := observe.Ejection{Endpoint: e.name(ep), State: status.State, Evidence: status.Evidence}
		e.addLocked(func() { e.observer.Ejected(ejection) })
	case was && !out:
		delete(e.ejected, ep)
		readmission := observe.Readmission{Endpoint: e.name(ep), After: now.Sub(since)}
		e.addLocked(func() { e.observer.Readmitted(readmission) })
	}
}

// Inspector reports what the policy of a ClientConn knows and does.
type Inspector struct {
	// Name returns the name of an endpoint for the report.
	Name func(*balancer.Endpoint) string

	mu          sync.Mutex
	base, later sample // shares are counted from base; later replaces it when it is shareTime old
}

// shareTime is how long calls are counted at least for a share, once reports have been made for so long.
const shareTime = time.Minute

// sample is how many calls the endpoints had ended at a moment.
type sample struct {
	at    time.Time
	ended map[*balancer.Endpoint]uint64
}

// Inspect fills in the policy's part: endpoints, calls at them, and the budget of probes.
func (i *Inspector) Inspect(m *balancer.Monitor, o introspect.Options, into *introspect.Client) {
	now, eps := time.Now(), m.Endpoints()
	into.Calls = introspect.Calls{ByMethod: map[string]int{}, Oldest: []introspect.Call{}}
	into.Endpoints = make([]introspect.Endpoint, 0, len(eps))
	latest := sample{now, make(map[*balancer.Endpoint]uint64, len(eps))}
	usable := slices.ContainsFunc(eps, func(ep *balancer.Endpoint) bool { return ep.State().Usable() })
	for _, ep := range eps {
		in := ep.Inspect(o.Limit)
		shown := i.endpoint(ep, &in, now)
		shown.Ejected = usable && !ep.State().Usable()
		into.Endpoints = append(into.Endpoints, shown)
		for _, w := range in.Work {
			latest.ended[ep] += w.Ended
		}
		into.Calls.Attempts += shown.InFlight
		for method, n := range in.ByMethod {
			into.Calls.ByMethod[method] += n
		}
		for _, call := range in.Calls {
			into.Calls.Oldest = append(into.Calls.Oldest, inFlight(call, shown.Name, now))
		}
	}
	for n, share := range i.shares(eps, latest) {
		into.Endpoints[n].Share = share
	}
	slices.SortStableFunc(into.Endpoints, func(a, b introspect.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	oldest := into.Calls.Oldest
	slices.SortStableFunc(oldest, func(a, b introspect.Call) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	into.Calls.Oldest = oldest[:min(len(oldest), o.Limit)]
	probes := introspect.Budget{Name: "probe"}
	probes.Left, probes.Max, probes.Used = m.ProbeBudget()
	into.Budgets = []introspect.Budget{probes}
}

// shares returns the share of each endpoint in the calls that have ended since base.
func (i *Inspector) shares(eps []*balancer.Endpoint, latest sample) []float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if latest.at.Sub(i.later.at) >= shareTime {
		i.base, i.later = i.later, latest
	}
	shares, all := make([]float64, len(eps)), 0.
	for n, ep := range eps {
		shares[n] = float64(latest.ended[ep] - min(i.base.ended[ep], latest.ended[ep]))
		all += shares[n]
	}
	for n := range shares {
		shares[n] /= max(all, 1)
	}
	if i.base.at.IsZero() {
		i.base = latest
	}
	return shares
}

func inFlight(call balancer.InFlight, endpoint string, now time.Time) introspect.Call {
	shown := introspect.Call{Method: call.Method, Endpoint: endpoint, AgeSeconds: now.Sub(call.Start).Seconds()}
	if !call.Deadline.IsZero() {
		left := call.Deadline.Sub(now).Seconds()
		shown.LeftSeconds = &left
	}
	return shown
}

func (i *Inspector) endpoint(ep *balancer.Endpoint, in *balancer.Inspection, now time.Time) introspect.Endpoint {
	s := ep.Health()
	shown := introspect.Endpoint{
		Name: i.Name(ep), State: s.State.String(), StateSeconds: ago(s.Since, now),
		Connected: ep.Ready(), Connections: in.Connections, InFlight: ep.InFlight(), Streams: in.Streams,
		LatencySeconds: in.Latency.Seconds(), Member: shownMember(etcdprobe.RoleOf(s), ago(s.InfoAt, now)),
		Work: make([]introspect.Work, 0, len(in.Work)),
	}
	if !s.Evidence.At.IsZero() {
		shown.Evidence, shown.Detail = s.Evidence.Kind.String(), s.Evidence.Detail
	}
	if s.LastErr != nil {
		shown.LastError, shown.LastErrorSeconds = s.LastErr.Error(), ago(s.LastErrAt, now)
	}
	for _, w := range in.Work {
		shown.Work = append(shown.Work, introspect.Work{
			Shape: w.Shape, Ended: w.Ended, Failed: w.Failed, Seconds: w.Took.Seconds(), P99Seconds: w.P99.Seconds(),
		})
	}
	return shown
}

// ago returns the seconds from at to now; 0 for the zero time.
func ago(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(now.Sub(at).Seconds(), 0)
}

func shownMember(r etcdprobe.Role, before float64) *introspect.Member {
	if r.ID == 0 {
		return nil
	}
	return &introspect.Member{
		ID: strconv.FormatUint(r.ID, 16), Leader: strconv.FormatUint(r.Leader, 16), IsLeader: r.IsLeader(),
		Learner: r.Learner, Term: r.Term, Applied: r.Applied, Version: r.Version, Alarms: r.Alarms, ReportedBefore: before,
	}
}
