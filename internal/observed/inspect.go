package observed

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/observe/introspect"
)

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
