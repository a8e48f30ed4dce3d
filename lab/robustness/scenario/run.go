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
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/callcheck"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/load"
	"github.com/quorate/quorate/lab/robustness/measure"
	"github.com/quorate/quorate/lab/robustness/record"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
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

// longest bounds a run; its schedule ends before.
const longest = 30 * 24 * time.Hour

// run is one run of the experiment. It is the workload and the schedule of a [robustness.Run].
type run struct {
	cfg     Config
	env     *robustness.Env
	began   atomic.Pointer[time.Time] // when the load began
	site    fault.Site
	front   *fault.Front
	conn    client.Connection
	scene   fault.Scene
	load    *load.Load
	meter   measure.Meter
	calls   calls
	claims  claims
	seen    *seen
	display *display
	end     time.Duration // of the last row
	unseen  func()        // ends the observation of the members
	settled int64         // the revision at which the store settled
	rep     report.Report
	rowsErr error // why the rows could not go on
}

// Run runs the experiment. The report is valid, as far as it goes, even with an
// error, and has no rows if the load never began. The error says why the run
// could not go on; a violation found by the checks is none, see the report's
// Verdict. The end of ctx ends the run early, which is no error either.
//
// When Run returns, the cluster is gone with its processes, ports and files.
func Run(ctx context.Context, cfg Config) (report.Report, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return report.Report{}, err
	}
	r := &run{cfg: cfg, seen: newSeen(cfg.Callers), rep: report.Report{Setup: cfg.setup()}}
	r.display = showProgress(cfg.Progress, r.snapshot)
	defer r.display.close()
	r.display.phase(fmt.Sprintf("starting %d members", cfg.Members))
	r.site, _ = fault.SiteOf(cfg.Faults) // the configuration has been checked
	out, err := robustness.Run(ctx,
		robustness.Config{Duration: longest, Members: cfg.Members, Seed: cfg.Seed, Dir: cfg.Dir, Log: io.Discard},
		robustness.Setup{Cluster: r.site.Config(lab.Config{Election: cfg.Election, Heartbeat: cfg.Election / 10}), Record: true, Schedule: r.schedule}, r)
	if r.load == nil && out.Interrupted {
		err = nil
	}
	r.rep.Interrupted = out.Interrupted
	if err = errors.Join(r.rowsErr, err); err != nil {
		r.rep.Failure = err.Error()
	}
	if r.load != nil {
		r.rep.Started, r.rep.Duration = *r.began.Load(), r.end
		r.rep.Rows, r.rep.ErrorSamples = r.meter.Rows(r.end), r.meter.ErrorSamples()
		looks, claims := r.claims.found()
		r.rep.LeaseLooks = looks
		r.rep.Verdict.Merge(claims)
	}
	return r.rep, err
}

// Start connects the client and starts the load.
func (r *run) Start(ctx context.Context, env *robustness.Env) (err error) {
	r.env = env
	if r.front, err = r.site.Open(env.Cluster); err != nil {
		return err
	}
	to := client.Target{Endpoints: r.front.Endpoints, TLS: env.Cluster.ClientTLS()}
	if r.conn, err = r.cfg.Connect(to); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	r.scene = fault.Scene{
		Cluster: env.Cluster, Rand: rand.New(rand.NewPCG(r.cfg.Seed, 0)), Note: r.note, Hold: r.cfg.Hold, Front: r.front, Store: r.conn.Store,
		Join: func(security *tls.Config) (fault.Client, error) {
			other, err := r.cfg.Connect(client.Target{Endpoints: to.Endpoints, TLS: cmp.Or(security, to.TLS)})
			return fault.Client{Store: other.Store, Close: other.Close}, err
		},
	}
	revision, err := r.firstContact(ctx)
	if err != nil {
		return err
	}
	if r.watching() {
		r.meter.Watch(history.Scopes(r.cfg.Callers))
	}
	began := time.Now()
	r.began.Store(&began)
	r.unseen = r.observe(context.WithoutCancel(ctx), r.conn.Services, revision+1)
	starting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r.load = load.Start(starting, r.conn.Services, r, load.Config{
		Callers: r.cfg.Callers, Pause: r.cfg.Pause, Timeout: r.cfg.CallTimeout,
		Prefix: r.prefix(), Revision: revision + 1, LeasePrefix: r.leasePrefix(), LeaseTTL: r.cfg.LeaseTTL,
		Seed: r.cfg.Seed, Now: r.now,
	})
	return nil
}

// watching reports whether there are watches.
func (r *run) watching() bool { return r.conn.Watcher != nil }

// firstContact makes sure that the client works, so that connecting is not
// part of the healthy row, and returns the revision that the store is at.
func (r *run) firstContact(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answer, err := r.conn.Store.Get(ctx, r.prefix(), false)
	if err != nil {
		return 0, fmt.Errorf("the first call to the healthy cluster failed: %w", err)
	}
	return answer.Revision, nil
}

// schedule runs all rows. A run that did not come to its end is healed, and its last
// calls are not waited for long. What was measured until then is checked all the same.
func (r *run) schedule(ctx context.Context) (err error) {
	r.rowsErr = r.runRows(ctx)
	drain := r.cfg.CallTimeout
	if r.end = r.now(); r.rowsErr != nil {
		drain = drainTimeout
		if ctx.Err() != nil {
			r.rowsErr = nil
		}
	}
	r.meter.End(r.end)
	ctx = context.WithoutCancel(ctx)
	if drain == drainTimeout {
		r.display.phase("healing the cluster")
		err = r.heal(ctx)
	}
	stopping, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	r.load.Stop(stopping)
	return err
}

// Stop implements [robustness.Workload]: the schedule has stopped the load.
func (r *run) Stop() error { return nil }

// Settle waits until the watches have delivered everything, and ends them.
func (r *run) Settle() (err error) {
	if r.settled, err = r.env.Recorded(); err != nil {
		r.rep.Watches.Skipped = "the history of the store is not known"
		return err
	}
	if r.watching() {
		r.display.phase("waiting for the watches")
		r.settleWatches(context.Background(), newestOf(history.Scopes(r.cfg.Callers), r.prefix(), r.env.Record.Events()))
	}
	r.load.EndWatches()
	r.display.phase("checking")
	return nil
}

// Close implements [robustness.Workload].
func (r *run) Close() error {
	if r.load != nil {
		r.load.EndWatches()
		r.unseen()
	}
	var errs []error
	if r.conn.Close != nil {
		errs = append(errs, r.conn.Close())
	}
	if r.front != nil {
		errs = append(errs, r.front.Close())
	}
	return errors.Join(errs...)
}

// Check compares calls and watches with the history of the store.
func (r *run) Check(*robustness.Outcome) error {
	through, err := r.env.Recorded()
	if err != nil {
		return err
	}
	events := record.Through(r.env.Record.Events(), through)
	r.rep.Verdict = callcheck.Check(callcheck.History{Prefix: r.prefix(), Events: events, Through: through, Calls: r.calls.all})
	if r.watching() {
		r.rep.Watches, err = r.seen.evaluate(watchcheck.Reference{Events: events, Through: through, Settled: r.settled})
	}
	return err
}

// now returns the time since the load began.
func (r *run) now() time.Duration { return time.Since(*r.began.Load()) }

// note adds a note to the current row.
func (r *run) note(text string) { r.meter.Note(r.now(), text) }

// prefix returns what all keys begin with that callers write.
func (r *run) prefix() string { return fmt.Sprintf("/quorate-lab/%016x/", r.cfg.Seed) }

// leasePrefix returns what all keys begin with that are attached to leases.
func (r *run) leasePrefix() string { return fmt.Sprintf("/quorate-lab-leases/%016x/", r.cfg.Seed) }
