// Package faults injects one fault after the other into a cluster that is busy with a load, and reports what the callers, the
// readers of watches and the keepers of leases saw. [Compare] does so with several clients.
//
// # What belongs to which row
//
// The first row is a healthy phase, with which the others are compared. Each fault has
// a row of its own, and a call belongs to the row in which it was invoked. A row
// begins a few milliseconds before its fault, as soon as the calls of the row
// before have ended, so that they do not meet it. Then the fault is held and
// healed, the cluster gets ready, every call invoked so far ends,
// and a recovery phase follows; all of it is the fault's row. A caller that the
// fault keeps busy therefore never thins out the load of the next row, and what
// a fault does to the time after it counts for that fault.
//
// # How it ends
//
// The history of the store is recorded all the time, past the links and the client.
// When the last row has ended the callers stop. As soon as the watches have delivered
// everything, or failed to in 20 seconds, calls and watches are compared with that
// history. A run whose context ends first heals the cluster, does the same, and reports
// the rows so far.
package faults

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

const (
	// longest bounds a run; its schedule ends before.
	longest = 30 * 24 * time.Hour
	// firstCallTimeout bounds the first call.
	firstCallTimeout = 30 * time.Second
)

// run is one run of the experiment.
type run struct {
	cfg    Config
	env    *robustness.Env
	site   fault.Site
	conn   client.Connection
	scene  fault.Scene
	load   *load
	prefix string // of the keys that callers write
	rows   []Row
	failed error // why the rows could not go on
}

func newRun(cfg Config) *run {
	return &run{cfg: cfg, prefix: fmt.Sprintf("/quorate-lab/%016x/", cfg.Seed)}
}

// Run runs the experiment. The report is valid, as far as it goes, even with an
// error, and has no rows if the load never began. The error says why the run
// could not go on; a violation found by the checks is none, see [Report.Verdict].
// The end of ctx ends the run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config) (rep Report, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return Report{}, err
	}
	r := newRun(cfg)
	r.site, _ = fault.SiteOf(cfg.Faults)                     // the configuration has been checked
	cfg.Duration, cfg.Counts = longest, &robustness.Counts{} // of this run alone
	cluster := r.site.Config(lab.Config{Election: cfg.Election})
	rep.Setup = cfg.text()
	rep.Outcome, err = robustness.Run(ctx, cfg.Config, cluster, func(ctx context.Context, env *robustness.Env) {
		r.env = env
		r.workload(ctx)
	})
	if r.load == nil && rep.Interrupted {
		err = nil
	}
	if err = errors.Join(r.failed, err); err != nil {
		rep.Failure = err.Error()
	}
	if r.load != nil {
		rep.Rows = measure(r.rows, r.load.calls(), r.load.watches(), r.load.leases())
	}
	return rep, err
}

// start connects the client and starts the load. An error ends it, see package fatal.
func (r *run) start(ctx context.Context) {
	cluster := r.env.Cluster
	front := fatal.OK(r.site.Open(cluster))
	r.env.Cleanup(front.Close)
	to := client.Target{Endpoints: front.Endpoints, TLS: cluster.ClientTLS()}
	var err error
	r.conn, err = r.cfg.Connect(to)
	fatal.If(err, "connect to the cluster")
	r.env.Cleanup(r.conn.Close)
	r.scene = fault.Scene{
		Cluster: cluster, Rand: rand.New(rand.NewPCG(r.cfg.Seed, 0)), Note: r.note, Hold: r.cfg.Hold, Front: front,
		Join: func(security *tls.Config) (client.Connection, error) {
			return r.cfg.Connect(client.Target{Endpoints: to.Endpoints, TLS: cmp.Or(security, to.TLS)})
		},
	}
	starting, cancel := context.WithTimeout(ctx, firstCallTimeout)
	defer cancel()
	// Connecting is not part of the healthy row.
	first, err := r.conn.KV.Do(starting, group{}.keys(r.prefix), model.Request{Kind: model.Get, Then: reads[putKey]})
	fatal.If(err, "the first call to the healthy cluster failed")
	r.load = r.startLoad(starting, first.Revision+1)
	r.env.Cleanup(func() error { r.load.endWatches(); return nil })
}

// workload runs the load and the faults. When the watches have delivered everything it compares calls, watches and leases with the
// history of the store.
func (r *run) workload(ctx context.Context) {
	r.start(ctx)
	env := r.env
	healed := r.schedule(ctx)
	r.load.stop()
	fatal.If(healed)
	settled, events := env.Recorded()
	r.load.settleWatches(events)
	fatal.If(env.Close())
	through, events := env.Recorded()
	watches := r.load.watches()
	verdict, err := watchcheck.Check(watchcheck.Reference{Events: events, Through: through, Settled: settled}, watches)
	fatal.If(err, "check the watches")
	env.Counts.Add("watches", "opened", len(watches))
	env.Counts.Add("watches", "events", int(verdict.Events))
	c := &checker{
		prefix: r.prefix, events: events, through: through, at: env.Record.At, counts: env.Counts, verdict: &env.Verdict,
	}
	c.checkCalls(r.load.calls())
	c.checkLeases(r.load.leases())
	env.Verdict.Merge(verdict.Verdict)
}

// schedule runs all rows. After an error or an interrupt it heals the cluster. What was measured so far is still checked.
func (r *run) schedule(ctx context.Context) (err error) {
	r.failed = fatal.Catch(func() { r.runRows(ctx) })
	r.rows[len(r.rows)-1].End = r.env.Now()
	if r.failed == nil {
		return nil
	}
	if ctx.Err() != nil {
		r.failed = nil
	}
	r.env.Note("healing the cluster")
	return fault.Heal(context.WithoutCancel(ctx), r.scene)
}

// runRows runs all rows: the healthy one, then each fault. The first error ends it.
func (r *run) runRows(ctx context.Context) {
	r.beginRow("healthy")
	fatal.If(pause.For(ctx, r.cfg.Healthy))
	for _, f := range r.cfg.Faults {
		r.runFault(ctx, f)
	}
}

// runFault injects a fault, holds and heals it, and waits until the callers have
// recovered. The calls of the previous row end before the injection, so that none
// of them meets the fault.
func (r *run) runFault(ctx context.Context, f fault.Fault) {
	row := r.beginRow(f.Name)
	fatal.If(r.load.settle(ctx))
	row.Fault = r.env.Now()
	fatal.If(f.Inject(ctx, r.scene))
	fatal.If(pause.For(ctx, row.Fault+r.cfg.Hold-r.env.Now()))
	row.Heal = r.env.Now()
	r.note("healing begins")
	fatal.If(fault.Heal(ctx, r.scene))
	r.note("all members are ready")
	fatal.If(r.load.settle(ctx))
	r.note("the calls that met the fault have ended")
	fatal.If(pause.For(ctx, r.cfg.Recovery))
}

// beginRow ends the current row, if there is one, and begins the next.
func (r *run) beginRow(name string) *Row {
	now, n := r.env.Now(), len(r.rows)
	if n > 0 {
		r.rows[n-1].End = now
	}
	r.rows = append(r.rows, Row{Name: name, Start: now})
	r.env.Note(name)
	return &r.rows[n]
}

// note logs what is done in the current row.
func (r *run) note(text string) { r.env.Note(r.rows[len(r.rows)-1].Name + ": " + text) }

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
