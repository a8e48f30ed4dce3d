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
