package channel

import (
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/retry"
)

// note records the end of a call.
func (c *client) note(err error) {
	switch {
	case err == nil || isServed(err):
		c.failing.Store(nil)
	case retry.CodeOf(err) != codes.Canceled: // the caller's, or Close
		c.failing.Store(&err)
	}
}

// isServed reports whether an error shows that a member handles the requests of this client:
// it refused one for what it asks.
func isServed(err error) bool {
	switch retry.CodeOf(err) {
	case codes.InvalidArgument:
		served := rpctypes.Error(err)
		return !errors.Is(served, rpctypes.ErrUserEmpty) && !errors.Is(served, rpctypes.ErrAuthFailed)
	case codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition, codes.OutOfRange:
		return true
	default:
		return false
	}
}

// Failing returns the error of the latest call if every call since the latest success failed, and
// nil otherwise. Calls to a named member do not count.
func (c *Channel) Failing() error {
	if f := c.failing.Load(); f != nil {
		return *f
	}
	return nil
}

// Unanswered returns for how long the oldest attempt in flight has had no answer; 0 if there is
// none.
func (c *Channel) Unanswered() time.Duration {
	var oldest time.Duration
	for _, ep := range c.monitor.Endpoints() {
		for _, call := range ep.Inspect(1).Calls {
			oldest = max(oldest, time.Since(call.Start))
		}
	}
	return oldest
}
