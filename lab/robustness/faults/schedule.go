package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/robustness/report"
)

// injectTimeout bounds how long a fault may take to happen, beside the time for which it
// is held; a rolling restart takes one to three seconds for each member, and on a busy machine twenty.
const injectTimeout = 3 * time.Minute

// schedule runs all rows. A run that did not come to its end is healed, and its last
// calls are not waited for long. What was measured until then is checked all the same.
func (r *run) schedule(ctx context.Context) (err error) {
	r.rowsErr = fatal.Catch(func() { r.runRows(ctx) })
	r.endRow()
	if r.rowsErr == nil {
		return nil
	}
	if ctx.Err() != nil {
		r.rowsErr = nil
	}
	r.drain = drainTimeout
	r.env.Note("healing the cluster")
	return r.heal(context.WithoutCancel(ctx))
}

// runRows runs all rows: the healthy one, then each fault. The first error ends it.
func (r *run) runRows(ctx context.Context) {
	r.beginRow("healthy")
	fatal.If(pause.For(ctx, r.cfg.Healthy))
	for _, f := range r.cfg.Faults {
		r.runFault(ctx, f)
	}
}

// runFault injects a fault, holds and heals it, and waits until it is over for the
// callers too. The calls that were invoked in the row before end before the
// fault is injected, so that none of them meets it.
func (r *run) runFault(ctx context.Context, f fault.Fault) {
	r.beginRow(f.Name)
	fatal.If(r.load.calls.settle(ctx))
	held := time.Now().Add(r.cfg.Hold)
	r.mark(func(row *report.Row, now report.Duration) { row.Fault = now })
	fatal.If(r.inject(ctx, f))
	fatal.If(pause.For(ctx, time.Until(held)))
	r.mark(func(row *report.Row, now report.Duration) { row.Heal = now })
	r.note("healing begins")
	fatal.If(r.heal(ctx))
	r.note("all members are ready")
	fatal.If(r.load.calls.settle(ctx))
	r.note("the calls that met the fault have ended")
	fatal.If(pause.For(ctx, r.cfg.Recovery))
}

func (r *run) inject(ctx context.Context, f fault.Fault) error {
	ctx, cancel := context.WithTimeout(ctx, injectTimeout+r.cfg.Hold)
	defer cancel()
	return f.Inject(ctx, r.scene)
}

func (r *run) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %v", readyTimeout))
	defer cancel()
	return fault.Heal(ctx, r.scene)
}

// beginRow ends the current row, if there is one, and begins the next.
func (r *run) beginRow(name string) {
	r.endRow()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Rows = append(r.rec.Rows, report.Row{Name: name, Start: r.rep.Duration})
	r.env.Note(name)
}

// endRow ends the current row, and with it what was measured.
func (r *run) endRow() {
	r.rep.Duration = report.Duration(r.env.Now())
	r.mark(func(row *report.Row, _ report.Duration) { row.End = r.rep.Duration })
}

// mark changes the current row; without one that has not ended it does nothing.
func (r *run) mark(change func(row *report.Row, now report.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row := r.rec.Current(); row != nil {
		change(row, report.Duration(r.env.Now()))
	}
}

// note logs what is done in the current row.
func (r *run) note(text string) {
	r.mark(func(row *report.Row, _ report.Duration) { r.env.Note(row.Name + ": " + text) })
}
