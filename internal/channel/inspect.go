package channel

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/observe/introspect"
	"github.com/quorate/quorate/retry"
)

// Inspect fills in the channel's part: endpoints, calls and budgets.
func (c *Channel) Inspect(o introspect.Options, into *introspect.Client) {
	now := time.Now()
	into.Calls = introspect.Calls{
		InFlight: int(c.running.Load()), ByMethod: map[string]int{}, Oldest: []introspect.Call{},
	}
	into.Endpoints = []introspect.Endpoint{}
	for _, ep := range c.monitor.Endpoints() {
		in := ep.Inspect(o.Limit)
		shown := c.endpoint(ep, &in, now)
		into.Endpoints = append(into.Endpoints, shown)
		into.Calls.Attempts += shown.InFlight
		for method, n := range in.ByMethod {
			into.Calls.ByMethod[method] += n
		}
		for _, call := range in.Calls {
			into.Calls.Oldest = append(into.Calls.Oldest, inFlight(call, shown.Name, now))
		}
	}
	slices.SortFunc(into.Endpoints, func(a, b introspect.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	oldest := into.Calls.Oldest
	slices.SortStableFunc(oldest, func(a, b introspect.Call) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	into.Calls.Oldest = oldest[:min(len(oldest), o.Limit)]
	into.Budgets = c.budgets()
}

func inFlight(call balancer.InFlight, endpoint string, now time.Time) introspect.Call {
	shown := introspect.Call{Method: call.Method, Endpoint: endpoint, AgeSeconds: now.Sub(call.Start).Seconds()}
	if !call.Deadline.IsZero() {
		left := call.Deadline.Sub(now).Seconds()
		shown.LeftSeconds = &left
	}
	return shown
}

func (c *Channel) endpoint(ep *balancer.Endpoint, in *balancer.Inspection, now time.Time) introspect.Endpoint {
	s := ep.Health()
	shown := introspect.Endpoint{
		Name: c.names.of(ep), State: s.State.String(), StateSeconds: ago(s.Since, now),
		Connected: ep.Ready(), InFlight: ep.InFlight(), Streams: in.Streams,
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

func (c *Channel) budgets() []introspect.Budget {
	of := func(name string, b *retry.Budget) introspect.Budget {
		left, limit := b.Left()
		return introspect.Budget{Name: name, Left: left, Max: limit}
	}
	probes := introspect.Budget{Name: "probe"}
	probes.Left, probes.Max, probes.Used = c.monitor.ProbeBudget()
	return []introspect.Budget{of("retry", c.budget), of("stream retry", c.streams.budget), of("hedge", c.hedges), probes}
}
