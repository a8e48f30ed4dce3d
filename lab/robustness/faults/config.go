package faults

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
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
	// Hold is how long each fault is held. A fault that takes
	// longer by itself, such as a rolling restart, is not cut short. Default 7 s.
	Hold time.Duration
	// Recovery is how long a fault's row goes on after the cluster is ready
	// again and the calls that met the fault have ended. Default 3 s.
	Recovery time.Duration
	// Callers of each of the four kinds of call, and with them the number
	// of watches and of leases. Default 6.
	Callers int
	// Pause of a caller between two calls. Default 5 ms.
	Pause time.Duration
	// CallTimeout is the deadline of each call. Default 10 s.
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
	wrong := []error{c.Complete()}
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
	if min(c.Hold, c.CallTimeout, c.Healthy, c.Recovery, c.Pause) < 0 || c.Callers < 0 {
		wrong = append(wrong, errors.New("no time, and no number of callers, can be negative"))
	}
	_, err := fault.SiteOf(c.Faults)
	return c, errors.Join(append(wrong, err)...)
}

// text describes the run in sentences.
func (c Config) text() string {
	return fmt.Sprintf(`The cluster had %d members, the load %d callers of each kind, %v between calls and a deadline of %v,
and as many watches, and leases with a TTL of %v. Faults were held for %v. The seed was %d.
`, c.Members, c.Callers, c.Pause, c.CallTimeout, c.LeaseTTL, c.Hold, c.Seed)
}
