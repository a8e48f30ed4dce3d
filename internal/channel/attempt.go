package channel

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"

	"github.com/quorate/quorate/retry"
)

// attempt is the record of one attempt of a call. It travels down to the
// picker and to the call credentials as the attempt's context, and comes back
// with what they saw: where the attempt went, with which token, and whether
// anything of it can have left this process.
//
// One record serves all attempts of a unary call, one after the other. Its
// fields are atomic because a stream's picks and ends may happen on goroutines
// of grpc's.
type attempt struct {
	context.Context

	// anonymous attempts carry no token: Authenticate itself.
	anonymous bool

	// avoid is the connection that the previous attempt failed on.
	avoid balancer.SubConn

	picked atomic.Pointer[picked]
	// maySent counts the picks that are not known to have ended before a
	// stream was created. A pick of whose end grpc tells nothing counts: it
	// does not for a response of two messages where one is due, for instance.
	maySent atomic.Int32
	token   atomic.Pointer[token]
}

// picked remembers the connection of the latest pick.
type picked struct{ conn balancer.SubConn }

type attemptKey struct{}

// Value makes the record its own context key, which saves an allocation on
// every call.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// evidence tells the error handler what is known of the attempt that just
// ended. An attempt that was not picked by our policy counts as sent: nothing
// is known of it.
func (a *attempt) evidence(method string) retry.Evidence {
	return retry.Evidence{
		Sent:       a.maySent.Load() > 0 || a.picked.Load() == nil,
		ContextErr: a.ended(),
		Method:     method,
	}
}

// lateTimer bounds the wait for a context whose deadline has passed.
const lateTimer = time.Second

// ended returns the error of the context if it has ended. The server counts
// the same deadline down, and under load its answer that the deadline has
// passed is here before the context's timer has run: that is still the end of
// the context.
func (a *attempt) ended() error {
	if err := a.Err(); err != nil {
		return err
	}
	if end, ok := a.Deadline(); !ok || time.Now().Before(end) {
		return nil
	}
	select {
	case <-a.Done():
	case <-time.After(lateTimer):
	}
	return a.Err()
}

// next prepares the record for another attempt, away from the connection of
// the last one.
func (a *attempt) next() {
	if p := a.picked.Load(); p != nil {
		a.avoid = p.conn
	}
	a.picked.Store(nil)
	a.maySent.Store(0)
	a.token.Store(nil)
}

// Trail collects what happened on the way of one call, for a caller that must
// know more than its result. See [WithTrail].
type Trail struct{ ambiguous atomic.Bool }

// Ambiguous reports whether an attempt before the last one may have been
// executed. The last one's result alone does not tell: a LeaseRevoke that was
// repeated after a broken connection finds the lease gone.
func (t *Trail) Ambiguous() bool { return t.ambiguous.Load() }

type trailKey struct{}

// WithTrail returns a context whose call records its way in the Trail.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	t := new(Trail)
	return context.WithValue(ctx, trailKey{}, t), t
}

func markAmbiguous(ctx context.Context) {
	if t, ok := ctx.Value(trailKey{}).(*Trail); ok {
		t.ambiguous.Store(true)
	}
}
