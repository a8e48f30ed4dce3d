package channel

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// ErrClosed is what calls on a closed Channel fail with: what grpc answers to
// calls on a closed ClientConn.
var ErrClosed = status.Error(codes.Canceled, "grpc: the client connection is closing")

// caller carries out calls over one connection, by the rules of package retry.
// It is the grpc.ClientConnInterface that the API client is built on.
type caller struct {
	*shared
	conn grpc.ClientConnInterface
	// width is how many endpoints a call can choose from.
	width func() int
	// lane is that of calls and streams whose traits name none.
	lane balancer.Lane
}

// shared is what all callers of one client have in common.
type shared struct {
	config *retry.Config
	budget *retry.Budget
	hedges *retry.Budget
	tokens *tokenSource
	log    func() *zap.Logger
	closed chan struct{}

	table    *health.Table
	writes   *writes // nil where none are overtaken
	observer observe.Observer
	// name returns what the client was given for an endpoint.
	name func(*balancer.Endpoint) string
}

var _ grpc.ClientConnInterface = (*caller)(nil)

func (s *shared) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Invoke carries out a unary call, in as many attempts as are safe and useful.
// User interceptors see each of them once, a hedge like any other: it runs beside
// the attempt that it backs up.
func (c *caller) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return c.newCall(ctx, method, req, reply, opts).run()
}

// authenticate trades a name and a password for a token. It does not need one
// itself, and may be repeated: a token more on the server hurts nobody.
func (c *caller) authenticate(ctx context.Context, method string, req, reply any) error {
	call := c.newCall(ctx, method, req, reply, []grpc.CallOption{grpc.WaitForReady(true)})
	call.first.anonymous = true
	return call.run()
}

// traitsOf returns the traits of a call over this caller.
func (c *caller) traitsOf(method string, req any) traits {
	t := traitsOf(method, req)
	if t.lane == balancer.Calls {
		t.lane = c.lane
	}
	return t
}
