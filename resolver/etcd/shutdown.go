package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// withdrawalTimeout bounds the withdrawal in a shutdown, so that during an outage of etcd the
// server can still finish its calls.
const withdrawalTimeout = 5 * time.Second

// Server is the part of *grpc.Server that Shutdown needs.
type Server interface {
	// GracefulStop refuses new calls and returns when in-flight calls are done.
	GracefulStop()
	// Stop ends all calls, which also ends GracefulStop.
	Stop()
}

// Shutdown stops a server without failing calls:
//
//  1. the endpoint is withdrawn, so that callers turn to other servers;
//  2. the [Registration.DrainPause] passes, and [Registration.Drained] returns;
//  3. GracefulStop: the server refuses new calls, which gRPC makes elsewhere, and
//     finishes those in flight.
//
// When ctx ends, the server is stopped at once. The withdrawal gets a third of the time
// until ctx's deadline, at most 5 s.
//
// The error joins the errors of the withdrawal, of Drained, and of a Stop that ended calls. The
// server has stopped in any case. A nil server is an error; use [Registrar.Withdraw] instead.
func (r *Registrar) Shutdown(ctx context.Context, server Server) error {
	if server == nil {
		return errors.New("etcd: Shutdown has no server; call Withdraw if there is none to stop")
	}
	withdrawing, cancel := context.WithTimeout(ctx, withdrawalTime(ctx))
	errs := []error{r.Withdraw(withdrawing)}
	cancel()
	if d := cmp.Or(r.reg.DrainPause, DefaultDrainPause); d > 0 {
		_ = pause.For(ctx, d) // stop checks ctx
	}
	if r.reg.Drained != nil && ctx.Err() == nil {
		if err := r.reg.Drained(ctx); err != nil {
			errs = append(errs, fmt.Errorf("etcd: %q: Drained: %w", r.Key(), err))
		}
	}
	return errors.Join(append(errs, stop(ctx, server))...)
}

func withdrawalTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return withdrawalTimeout
	}
	return min(time.Until(deadline)/3, withdrawalTimeout)
}

// stop returns when the server has stopped.
func stop(ctx context.Context, server Server) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		server.Stop()
		<-stopped
		return fmt.Errorf("etcd: the server was stopped before it had finished its calls: %w", ctx.Err())
	}
}
