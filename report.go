package quorate

import (
	"slices"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe/introspect"
)

// Introspect implements introspect.Source.
func (c *observedConn) Introspect(o introspect.Options) introspect.Client {
	c.mu.Lock()
	monitor, resolved, err := c.monitor, c.endpoints, c.err
	c.mu.Unlock()
	shown := introspect.Client{Target: c.target, Policy: monitor.Policy(), Config: c.channel.shown()}
	c.inspector.Inspect(monitor, o.WithDefaults(), &shown)
	shown.Calls.InFlight = shown.Calls.Attempts
	switch {
	case slices.ContainsFunc(monitor.Endpoints(), func(ep *balancer.Endpoint) bool { return ep.Ready() && ep.State().Usable() }):
		shown.Ready = true
	case resolved > 0 && shown.Policy == "":
		shown.NotReady = "the service config of the resolver chooses another policy, of which nothing is known"
	case resolved > 0:
		shown.NotReady = "no usable endpoint is connected"
	default:
		shown.NotReady = "the resolver has given no endpoints"
	}
	if resolved == 0 && err != nil {
		shown.NotReady += "; the resolver's latest error: " + err.Error()
	}
	return shown
}

// shown returns the configuration in force, without secrets.
func (c *Channel) shown() map[string]any {
	security := "none, or that of the pool"
	if c.TransportCredentials != nil {
		security = c.TransportCredentials.Info().SecurityProtocol
	}
	return map[string]any{
		"TransportCredentials": security,
		"Policy":               c.Policy,
		"HealthService":        c.HealthService,
		"Calls.Repeatable":     c.Calls.Repeatable,
		"Calls.Once":           c.Calls.Once,
		"Keepalive.Time":       c.Keepalive.Client.Time.String(),
	}
}
