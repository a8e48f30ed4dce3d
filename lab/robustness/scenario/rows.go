package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/fault"
)

// healthyRow is the name of the first row.
const healthyRow = "healthy"

// runRows runs all rows: the healthy one, then each fault.
func (r *run) runRows(ctx context.Context) error {
	r.begin(healthyRow)
	if err := pause.For(ctx, r.cfg.Healthy); err != nil {
		return err
	}
	for _, f := range r.cfg.Faults {
		if err := r.runFault(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) begin(row string) {
	r.meter.Begin(row, r.now())
	r.display.phase(row)
}

// runFault injects a fault, holds and heals it, and waits until it is over for the
// callers too. The calls that were invoked in the row before end before the
// fault is injected, so that none of them meets it.
func (r *run) runFault(ctx context.Context, f fault.Fault) error {
	r.begin(f.Name)
	if err := r.load.Settle(ctx); err != nil {
		return err
	}
	held := time.Now().Add(r.cfg.Hold)
	r.meter.Inject(r.now())
	if err := r.inject(ctx, f); err != nil {
		return err
	}
	if err := pause.For(ctx, time.Until(held)); err != nil {
		return err
	}
	r.display.phase(f.Name + ": healing")
	r.meter.Heal(r.now())
	r.note("healing begins")
	if err := r.heal(ctx); err != nil {
		return err
	}
	r.note("all members are ready")
	r.display.phase(f.Name + ": waiting for the calls that met it")
	if err := r.load.Settle(ctx); err != nil {
		return err
	}
	r.note("the calls that met the fault have ended")
	r.display.phase(f.Name + ": recovering")
	return pause.For(ctx, r.cfg.Recovery)
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
