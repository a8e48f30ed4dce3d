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
