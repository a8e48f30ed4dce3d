package channel

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/retry"
)

// attempt is the record of one attempt of a call or one opening of a stream.
// It travels down to the picker and to the call credentials as the attempt's
// context, and comes back with what they saw: where the attempt went, with
// which token, and whether anything of it can have left this process.
//
// Its fields are atomic because picks and ends may happen on goroutines of
// grpc's, or of an interceptor that did not wait for its call.
type attempt struct {
	context.Context

	// anonymous attempts carry no token: Authenticate itself.
	anonymous bool

	// avoid are the connections that the work failed on before. It is not
	// changed while the attempt lasts.
	avoid []*connection

	// picked is the connection of the latest pick.
	picked atomic.Pointer[connection]
	// maySent counts the picks that are not known to have ended before a
	// stream was created. A pick of whose end grpc tells nothing counts: it
	// does not for a response of two messages where one is due, for instance.
	maySent atomic.Int32
	// over is set when the attempt is judged: from then on nothing is picked
	// for it, so that "not sent" stays true.
	over  atomic.Bool
	token atomic.Pointer[token]
}

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

// evidence ends the attempt and tells the error handler what is known of it.
// An attempt that was not picked by our policy counts as sent: nothing is
// known of it.
func (a *attempt) evidence(method string) retry.Evidence {
	a.over.Store(true)
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

// conn returns the connection that the attempt went to, nil if there is none.
func (a *attempt) conn() *connection {
	if a == nil {
		return nil
	}
	conn := a.picked.Load()
	if conn == noConnection {
		return nil
	}
	return conn
}

// usedToken returns the token that the attempt carried, nil if that is not known.
func (a *attempt) usedToken() *token {
	if a == nil {
		return nil
	}
	return a.token.Load()
}
