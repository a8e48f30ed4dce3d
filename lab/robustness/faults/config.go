package faults

import (
	"cmp"
	"time"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/report"
)

// Defaults of a Config. With all faults they make a run of about 90 seconds.
const (
	DefaultHold        = 7 * time.Second
	DefaultHealthy     = 8 * time.Second
	DefaultRecovery    = 3 * time.Second
	DefaultCallers     = 6
	DefaultCallTimeout = 10 * time.Second
	DefaultPause       = 5 * time.Millisecond
	// DefaultLeaseTTL is three times what a cluster of the lab needs to replace its leader, so
	// that such a loss can be survived, and less than half of DefaultHold, so that staying with
	// a member which does not answer cannot.
	DefaultLeaseTTL = 3 * time.Second
)

// Limits of a Config.
const (
	maxCallers = 1000
	minHold    = 100 * time.Millisecond
	maxHold    = time.Hour
	maxTimeout = 10 * time.Minute
)

// Config describes a run. Fields that are zero have their default.
type Config struct {
	// Config has the settings of all runs. The rows determine the Duration.
	robustness.Config
	// Election is the election timeout of the members; the heartbeat interval is a tenth of it. Default
	// that of the lab, 500 ms.
	Election time.Duration
	// Faults to inject, in order, all of one site. Default none: see [fault.Default] and [fault.All].
	Faults []fault.Fault
	// Healthy is how long the load runs before the first fault. Default 8 s.
	Healthy time.Duration
	// Hold is how long each fault is held, 100 ms to an hour. A fault that takes
	// longer by itself, such as a rolling restart, is not cut short. Default 7 s.
	Hold time.Duration
	// Recovery is how long a fault's row goes on after the cluster is ready
	// again and the calls that met the fault have ended. Default 3 s.
	Recovery time.Duration
	// Callers of each of the four kinds of call, 1 to 1000, and with them the number
	// of watches and of leases. Default 6.
	Callers int
	// Pause of a caller between two calls. Default 5 ms.
	Pause time.Duration
	// CallTimeout is the deadline of each call, at most ten minutes. Default 10 s.
	CallTimeout time.Duration
	// LeaseTTL is the time to live of each lease, in whole seconds. etcd grants no less than one and a half times its election
	// timeout, rounded up. Default 3 s.
	LeaseTTL time.Duration
	// Connect connects the load to the cluster. Default [quorate.Connect].
	Connect func(to client.Target) (client.Connection, error)
}

// complete returns the configuration with its defaults, or an error that names
// everything that is wrong with it.
func (c Config) complete() (Config, error) {
	check := c.Complete()
	c.Healthy = cmp.Or(c.Healthy, DefaultHealthy)
	c.Hold = cmp.Or(c.Hold, DefaultHold)
	c.Recovery = cmp.Or(c.Recovery, DefaultRecovery)
	c.Callers = cmp.Or(c.Callers, DefaultCallers)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, DefaultLeaseTTL)
	c.Pause = cmp.Or(c.Pause, DefaultPause)
	c.CallTimeout = cmp.Or(c.CallTimeout, DefaultCallTimeout)
	if c.Connect == nil {
		c.Connect = quorate.Connect
	}
	check.That(c.Hold >= minHold && c.Hold <= maxHold,
		"the time for which a fault is held must be %v to %v; it is %v", minHold, maxHold, c.Hold)
	check.Number("callers of each kind", c.Callers, maxCallers)
	check.That(c.CallTimeout > 0 && c.CallTimeout <= maxTimeout,
		"the timeout of a call must be more than 0 and at most %v; it is %v", maxTimeout, c.CallTimeout)
	check.That(c.Healthy > 0 && c.Recovery > 0 && c.Pause > 0, "negative time: healthy %v, recovery %v, pause %v", c.Healthy, c.Recovery, c.Pause)
	_, err := fault.SiteOf(c.Faults)
	check.That(err == nil, "%v", err)
	return c, check.Err()
}

func (c Config) setup() report.Setup {
	return report.Setup{
		Members: c.Members, Callers: c.Callers, Pause: report.Duration(c.Pause), CallTimeout: report.Duration(c.CallTimeout),
		Hold: report.Duration(c.Hold), LeaseTTL: report.Duration(c.LeaseTTL), Seed: c.Seed,
	}
}
