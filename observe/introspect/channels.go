package introspect

import (
	"slices"
	"strconv"
	"sync"

	"github.com/quorate/quorate/observe"
)

// Attacher is an observe.Observer that also reads the present state of its client, as those of
// observe/prometheus and observe/otel do.
type Attacher interface {
	// Attach is called when a client is made with the observer, or a channel of a quorate.Channel is opened. detach, unless
	// nil, is called once, when that client or channel is closed.
	Attach(Source) (detach func())
}

// Attach passes a client to each [Attacher] among its observers. detach ends that for all of them; a second call does nothing.
func Attach(o observe.Observer, client Source) (detach func()) {
	attachers := observe.Find[Attacher](o)
	all := make([]func(), 0, len(attachers))
	for _, a := range attachers {
		if one := a.Attach(client); one != nil {
			all = append(all, one)
		}
	}
	return sync.OnceFunc(func() {
		for _, one := range all {
			one()
		}
	})
}

// Channels are the gRPC channels made with the options of one quorate.Channel, in whose field Report
// they are. A channel is among them from its first call or Connect until it is closed or
// idle; gRPC connects an idle one again at the next call. The zero value has none.
//
// Give a [Handler] one Channels for each quorate.Channel. It shows each channel as a [Client]: the first
// has the name of the Channels, and further ones "name#2", "name#3" and so on. A name is free again when its
// channel closes.
type Channels struct {
	mu     sync.Mutex
	open   []Source // nil for a name that is free
	probes uint64   // of channels that were removed
}

// Add adds a channel until remove is called. quorate.Channel calls it.
func (c *Channels) Add(channel Source) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.open, nil)
	if i < 0 {
		i, c.open = len(c.open), append(c.open, nil)
	}
	c.open[i] = channel
	return sync.OnceFunc(func() {
		budgets := channel.Introspect(Options{Limit: 1}).Budgets // without the lock: it takes those of the channel
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[i] = nil
		for _, b := range budgets {
			c.probes += b.Used
		}
	})
}

// each returns the state of each channel, with its name, and what those that were removed have counted.
func (c *Channels) each(name string, o Options) (all []Client, removed Client) {
	c.mu.Lock()
	open := slices.Clone(c.open)
	removed = Client{Ready: true, Budgets: []Budget{{Name: "probe", Used: c.probes}}}
	c.mu.Unlock()
	for i, channel := range open {
		if channel == nil {
			continue
		}
		shown := channel.Introspect(o)
		shown.Name = name
		if i > 0 {
			shown.Name += "#" + strconv.Itoa(i+1)
		}
		all = append(all, shown)
	}
	return all, removed
}

// Introspect returns all channels as one, for [Metrics]: each of their endpoints, the numbers of calls, watches and leases,
// all budgets. It is ready if each channel is, and if there is none. Probes of channels that were removed still count.
func (c *Channels) Introspect(o Options) Client {
	all, removed := c.each("", o)
	return merge(append(all, removed))
}

// Metrics returns the [Metrics] of all channels as one, nil if there is none.
func (c *Channels) Metrics() []observe.Metric {
	all, removed := c.each("", Options{Limit: 1})
	if len(all) == 0 {
		return nil
	}
	return Metrics(merge(append(all, removed)))
}

// Metrics returns the numbers of a client: what is in flight, watches and their lag, leases and the time left,
// what is buffered, probes and budgets. A channel has neither watches nor leases. Endpoints with the same name,
// and budgets with the same name, are summed.
func Metrics(c Client) []observe.Metric {
	ready := 0.
	if c.Ready {
		ready = 1
	}
	all := []observe.Metric{
		gauge("ready", "1", "1 while at least one endpoint serves and not every call fails, and 0 otherwise.", ready),
		gauge("calls_in_flight", "{call}", "Calls that have not returned, those that wait for an endpoint or a retry included.", float64(c.Calls.InFlight)),
	}
	if c.Watches.ByState != nil {
		all = append(all, ofWatchesAndLeases(c)...)
	}
	byName := make(map[string]Endpoint, len(c.Endpoints)) // with and without TLS, or of several channels
	for _, e := range c.Endpoints {
		sum := byName[e.Name]
		sum.InFlight += e.InFlight
		sum.Streams += e.Streams
		sum.LatencySeconds = max(sum.LatencySeconds, e.LatencySeconds)
		byName[e.Name] = sum
	}
	for name, e := range byName {
		for _, m := range []observe.Metric{
			gauge("attempts_in_flight", "{attempt}", "Attempts of calls at the endpoint.", float64(e.InFlight)),
			gauge("streams_open", "{stream}", "Streams at the endpoint.", float64(e.Streams)),
			gauge("endpoint.latency", "s", "How long the endpoint takes to complete work, smoothed.", e.LatencySeconds),
		} {
			all = append(all, m.By("endpoint", name))
		}
	}
	return append(all, budgets(c.Budgets)...)
}

func ofWatchesAndLeases(c Client) []observe.Metric {
	all := []observe.Metric{
		gauge("watch.streams", "{stream}", "Streams that carry the watches.", float64(c.Watches.Streams)),
		gauge("watch.lag", "{revision}", "Revisions that the furthest of the watches that have not caught up is behind.", float64(c.Watches.LagRevisions)),
		gauge("watch.blocked", "s", "For how long a reader has not taken the next response; the longest of all watches.", c.Watches.BlockedSeconds),
		gauge("watch.buffered", "By", "What waits for the readers of watches.", float64(c.Watches.BufferedBytes)),
		gauge("watch.buffer_limit", "By", "What may wait for the readers of watches.", float64(c.Watches.MaxBufferedBytes)),
		gauge("leases", "{lease}", "Leases that are kept alive.", float64(c.Leases.KeptAlive)),
		gauge("leases_unanswered", "{lease}", "Leases with a keepalive that is not answered.", float64(c.Leases.Unanswered)),
	}
	if left := c.Leases.LeftSeconds; left != nil {
		all = append(all, gauge("lease.left", "s", "The least time that a lease has left.", *left))
	}
	if ratio := c.Leases.LeftRatio; ratio != nil {
		all = append(all, gauge("lease.left_ratio", "1", "The least part of its TTL that a lease has left; two thirds and more are normal.", *ratio))
	}
	for state, n := range c.Watches.ByState {
		all = append(all, gauge("watches", "{watch}", "Watches, by state.", float64(n)).By("state", state))
	}
	return all
}

func budgets(all []Budget) []observe.Metric {
	byName := make(map[string]Budget, len(all))
	for _, b := range all {
		sum := byName[b.Name]
		byName[b.Name] = Budget{Name: b.Name, Left: sum.Left + b.Left, Max: sum.Max + b.Max, Used: sum.Used + b.Used}
	}
	var metrics []observe.Metric
	for _, b := range byName {
		if b.Name == "probe" {
			metrics = append(metrics, observe.Counter("quorate.client.probes", "{probe}", "Health probes that were sent.", float64(b.Used)))
		}
		if b.Max > 0 {
			metrics = append(metrics,
				gauge("budget.left", "{attempt}", "What the budget pays for now.", b.Left).By("budget", b.Name),
				gauge("budget.limit", "{attempt}", "What the budget pays for when it is full.", b.Max).By("budget", b.Name))
		}
	}
	return metrics
}

func gauge(name, unit, description string, value float64) observe.Metric {
	return observe.Gauge("quorate.client."+name, unit, description, value)
}

// Every returns one of each metric that [Metrics] may return, for libraries that declare
// metrics beforehand.
func Every() []observe.Metric {
	var left float64
	return Metrics(Client{
		Endpoints: []Endpoint{{}},
		Watches:   Watches{ByState: map[string]int{WatchFollowing: 0}},
		Leases:    Leases{LeftSeconds: &left, LeftRatio: &left},
		Budgets:   []Budget{{Name: "probe", Max: 1}},
	})
}
