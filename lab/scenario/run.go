// Package scenario runs the lab's experiment: it starts a cluster, keeps it busy
// with a load, injects one fault after the other, and reports what the callers,
// the readers of watches and the keepers of leases saw.
//
// # What belongs to which row
//
// The first row is a healthy phase, with which the others are compared. Each fault has
// a row of its own, and a call belongs to the row in which it was invoked. A row
// begins a few milliseconds before its fault, as soon as the calls of the row
// before have ended, so that they do not meet it. Then the fault is held and
// healed, the cluster gets ready, every call that was invoked until then ends,
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
package scenario

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/history"
	"github.com/quorate/quorate/lab/load"
	"github.com/quorate/quorate/lab/measure"
	"github.com/quorate/quorate/lab/record"
	"github.com/quorate/quorate/lab/report"
	"github.com/quorate/quorate/lab/robustness/callcheck"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/watchcheck"
)

const (
	// readyTimeout bounds how long the cluster may take to be ready after a
	// fault was healed. It takes about a second.
	readyTimeout = 30 * time.Second
	// injectTimeout bounds how long a fault may take to happen, beside the time for which it
	// is held; a rolling restart takes one to three seconds for each member.
	injectTimeout = time.Minute
	// drainTimeout bounds the wait for the last calls of a run that was ended
	// early.
	drainTimeout = 2 * time.Second
)

// run is one run of the experiment.
type run struct {
	cfg     Config
	began   atomic.Pointer[time.Time] // when the load began
	scene   fault.Scene
	load    *load.Load
	meter   measure.Meter
	record  *record.Recorder
	calls   calls
	claims  claims
	seen    *seen
	display *display
	// requireLeader says that every watch asks for a leader.
	requireLeader bool
	watching      bool // there are watches
}

// Run runs the experiment. The report is valid, as far as it goes, even with an
// error, and has no rows if the load never began. The error says why the run
// could not go on; a violation found by the checker is none, see the report's
// Verdict. The end of ctx ends the run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config) (rep report.Report, err error) {
	cfg, err = cfg.complete()
	if err != nil {
		return report.Report{}, err
	}
	r := &run{cfg: cfg, seen: newSeen(cfg.Callers)}
	r.display = showProgress(cfg.Progress, r.snapshot)
	defer r.display.close()

	r.display.phase(fmt.Sprintf("starting %d members", cfg.Members))
	site, _ := fault.SiteOf(cfg.Faults) // the configuration has been checked
	cluster, err := lab.Start(ctx, site.Config(lab.Config{
		Members: cfg.Members, Dir: cfg.Dir, Election: cfg.Election, Heartbeat: cfg.Election / 10,
	}))
	if err != nil {
		return r.neverBegan(ctx, fmt.Errorf("start the cluster: %w", err))
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	front, err := site.Open(cluster)
	if err != nil {
		return r.neverBegan(ctx, err)
	}
	defer func() { err = errors.Join(err, front.Close()) }()

	conn, err := cfg.Connect(client.Target{Endpoints: front.Endpoints, TLS: cluster.ClientTLS()})
	if err != nil {
		return r.neverBegan(ctx, fmt.Errorf("connect to the cluster: %w", err))
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	r.scene = fault.Scene{
		Cluster: cluster, Rand: rand.New(rand.NewPCG(cfg.Seed, 0)), Note: r.note, Hold: cfg.Hold, Front: front, Store: conn.Store,
		Join: func(security *tls.Config) (fault.Client, error) {
			other, err := cfg.Connect(client.Target{Endpoints: front.Endpoints, TLS: cmp.Or(security, cluster.ClientTLS())})
			return fault.Client{Store: other.Store, Close: other.Close}, err
		},
	}
	revision, err := r.firstContact(ctx, conn.Store)
	if err != nil {
		return r.neverBegan(ctx, err)
	}
	return r.measure(ctx, conn, revision)
}

// neverBegan reports a run that ended before its load began.
func (r *run) neverBegan(ctx context.Context, err error) (report.Report, error) {
	rep := report.Report{Setup: r.cfg.setup()}
	rep.Interrupted = ended(ctx)
	if rep.Interrupted {
		return rep, nil
	}
	rep.Failure = err.Error()
	return rep, err
}

// ended reports whether the run was asked to end early.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// firstContact makes sure that the client works, so that connecting is not
// part of the healthy row, and returns the revision that the store is at.
func (r *run) firstContact(ctx context.Context, store client.Store) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answer, err := store.Get(ctx, r.prefix(), false)
	if err != nil {
		return 0, fmt.Errorf("the first call to the healthy cluster failed: %w", err)
	}
	return answer.Revision, nil
}

// measure runs the load on a store that is at the given revision, with everything
// that happens to the cluster meanwhile, and makes the report.
func (r *run) measure(ctx context.Context, conn client.Connection, revision int64) (report.Report, error) {
	services := conn.Services
	r.requireLeader = conn.RequireLeader
	if r.watching = services.Watcher != nil; r.watching {
		r.meter.Watch(history.Scopes(r.cfg.Callers))
	}
	r.record = record.Start(r.scene.Cluster)
	defer r.record.Stop()
	began := time.Now()
	r.began.Store(&began)
	defer r.observe(ctx, services, revision+1)()
	starting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r.load = load.Start(starting, services, r, load.Config{
		Callers: r.cfg.Callers, Pause: r.cfg.Pause, Timeout: r.cfg.CallTimeout,
		Prefix: r.prefix(), Revision: revision + 1, LeasePrefix: r.leasePrefix(), LeaseTTL: r.cfg.LeaseTTL,
		Seed: r.cfg.Seed, Now: r.now,
	})
	err := r.runRows(ctx)
	interrupted := ended(ctx)
	if interrupted {
		err = nil
	}
	end := r.now()
	r.meter.End(end)
	rep := report.Report{Setup: r.cfg.setup(), Started: began, Duration: end, Interrupted: interrupted}
	err = errors.Join(err, r.windUp(context.WithoutCancel(ctx), &rep, err == nil && !interrupted))
	rep.Rows, rep.ErrorSamples = r.meter.Rows(end), r.meter.ErrorSamples()
	looks, claims := r.claims.found()
	rep.LeaseLooks = looks
	rep.Verdict.Merge(claims)
	if err != nil {
		rep.Failure = err.Error()
	}
	return rep, err
}

// windUp ends the load and checks what it saw. A run that did not come to its end is healed
// first, and its last calls are not waited for long.
func (r *run) windUp(ctx context.Context, rep *report.Report, complete bool) error {
	defer r.load.EndWatches()
	drain := r.cfg.CallTimeout
	var err error
	if !complete {
		drain = drainTimeout
		r.display.phase("healing the cluster")
		err = r.heal(ctx)
	}
	stopping, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	r.load.Stop(stopping)
	if err != nil {
		return err
	}
	settled, err := r.recorded(ctx)
	if err != nil {
		rep.Watches.Skipped = "the history of the store is not known"
		return err
	}
	if r.watching {
		r.display.phase("waiting for the watches")
		r.settleWatches(ctx, newestOf(history.Scopes(r.cfg.Callers), r.prefix(), r.record.Events()))
	}
	r.load.EndWatches()
	through, err := r.recorded(ctx)
	if err != nil {
		return err
	}
	r.display.phase("checking")
	events := record.Through(r.record.Events(), through)
	rep.Verdict = callcheck.Check(callcheck.History{Prefix: r.prefix(), Events: events, Through: through, Calls: r.calls.all})
	if r.watching {
		rep.Watches, err = r.seen.evaluate(watchcheck.Reference{Events: events, Through: through, Settled: settled})
	}
	return err
}

// recorded waits until the history of the store is recorded up to the present revision, and returns that.
func (r *run) recorded(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	revision, err := r.record.CatchUp(ctx)
	if err != nil {
		return 0, fmt.Errorf("record the history of the store: %w", err)
	}
	return revision, nil
}

// now returns the time since the load began.
func (r *run) now() time.Duration { return time.Since(*r.began.Load()) }

// note adds a note to the current row.
func (r *run) note(text string) { r.meter.Note(r.now(), text) }

// prefix returns what all keys begin with that callers write.
func (r *run) prefix() string { return fmt.Sprintf("/quorate-lab/%016x/", r.cfg.Seed) }

// leasePrefix returns what all keys begin with that are attached to leases.
func (r *run) leasePrefix() string { return fmt.Sprintf("/quorate-lab-leases/%016x/", r.cfg.Seed) }
