package channel

import (
	"context"
	"sync/atomic"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// client is what all callers of one client share.
type client struct {
	config   *retry.Config
	hedges   *retry.Budget
	tokens   *tokenSource
	log      func() *zap.Logger
	closed   chan struct{}
	observer observe.Observer
	follower *follower
	// name returns what the client was given for an endpoint.
	name func(*balancer.Endpoint) string
	// running are the calls that have not returned.
	running atomic.Int64
}

func newClient(cfg Config) *client {
	config := cfg.Retry
	if config == nil {
		config = retry.DefaultConfig()
	}
	observer := cfg.Observer
	if observer == nil {
		observer = observe.None{}
	}
	return &client{
		config:   config,
		hedges:   retry.NewBudget(config.HedgingThrottling),
		tokens:   newTokenSource(cfg),
		log:      cfg.Logger,
		closed:   make(chan struct{}),
		observer: observer,
		follower: newFollower(cfg.Observer),
		name:     new(names).of,
	}
}

func (c *client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Caller carries out calls over one connection, by the rules of package retry. It is the
// grpc.ClientConnInterface that the API client is built on.
type Caller struct {
	*client
	conn   grpc.ClientConnInterface
	budget *retry.Budget // for retries
	// monitor shows the endpoints of conn; it is empty where they are not known.
	monitor *balancer.Monitor
	writes  *writes // nil where none are overtaken
	// width is how many endpoints a call can choose from.
	width func() int
	// class is that of calls and streams whose properties name none.
	class balancer.ConnClass
}

var _ grpc.ClientConnInterface = (*Caller)(nil)

func (c *client) newCaller(conn grpc.ClientConnInterface, width func() int) *Caller {
	return &Caller{
		client: c, conn: conn, width: width, monitor: new(balancer.Monitor),
		budget: retry.NewBudget(c.config.Throttling),
	}
}

// Invoke carries out a unary call, in as many attempts as are safe and useful. User
// interceptors see each of them once; a hedge runs beside the attempt that it backs up.
func (c *Caller) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return c.newCall(ctx, method, req, reply, opts).run()
}

// NewStream opens a stream with the token of the client. It is not retried: what a broken
// stream has delivered, and where to go on, only its owner knows, see [Retrier].
//
// The owner reads the stream until RecvMsg fails, or ends its context.
func (c *Caller) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.openStream(ctx, new(attempt), method, c.propertiesOf(method, nil), func(a *attempt) (grpc.ClientStream, error) {
		return c.conn.NewStream(a.ctx, desc, method, opts...)
	})
}

// authenticate trades a name and a password for a token. It does not need one itself, and
// may be repeated: a token more on the server hurts nobody.
func (c *Caller) authenticate(ctx context.Context, method string, req, reply any) error {
	call := c.newCall(ctx, method, req, reply, []grpc.CallOption{grpc.WaitForReady(true)})
	call.first.anonymous = true
	return call.run()
}

// knowsLeader reports whether a member has named the leader of the latest term.
func (c *Caller) knowsLeader() bool { return ledTerm(c.monitor) >= c.writes.term.Load() }

// propertiesOf returns the properties of a call over this caller.
func (c *Caller) propertiesOf(method string, req any) properties {
	p := propertiesOf(method, req)
	if p.conn == balancer.Calls {
		p.conn = c.class
	}
	return p
}

// Calls that a user makes on the bare *grpc.ClientConn (ActiveConnection, Dial)
// do not pass a caller. They are the user's own, with gRPC's usual semantics
// and no retry, but for the token: a user cannot know when it must be renewed.

// lastUnary is the last of the chained interceptors of our connections.
func (c *client) lastUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if a := attemptFrom(ctx); a != nil {
		return invoke(ctx, method, req, reply, cc, c.tokens.attach(opts, method, a)...)
	}
	for refreshes := 0; ; refreshes++ {
		a := new(attempt)
		a.start(ctx, propertiesOf(method, req))
		err := invoke(a.ctx, method, req, reply, cc, c.tokens.attach(opts, method, a)...)
		a.release()
		if err == nil {
			return nil
		}
		ev, err := a.outcome(method, err)
		if refreshes == maxTokenRefreshes || retry.Classify(err, ev) != retry.Token {
			return err
		}
		again, failure := c.tokens.replace(ctx, a.token.Load(), err)
		if failure != nil {
			return failure
		}
		if !again {
			return err
		}
	}
}

// lastStream is the last of the chained stream interceptors.
func (c *client) lastStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if a := attemptFrom(ctx); a != nil {
		return streamer(ctx, desc, cc, method, c.tokens.attach(opts, method, a)...)
	}
	return c.openStream(ctx, new(attempt), method, propertiesOf(method, nil), func(a *attempt) (grpc.ClientStream, error) {
		return streamer(a.ctx, desc, cc, method, c.tokens.attach(opts, method, a)...)
	})
}
