package channel

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/internal/hedge"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// client is the state shared by all callers of one client.
type client struct {
	config   *retry.Config
	hedges   hedge.Hedger
	tokens   *tokenSource
	log      func() *zap.Logger
	closed   chan struct{}
	observer observe.Observer
	// execute executes a call, and reports it if anything observes calls.
	execute func(*call) error
	// name returns an endpoint's name as configured.
	name func(*balancer.Endpoint) string
	// running counts the calls that have not returned.
	running atomic.Int64
	failing atomic.Pointer[error] // of the latest call; nil unless every call fails
	large   largeRanges
}

func newClient(cfg Config) *client {
	config := cfg.Retry
	if config == nil {
		config = retry.DefaultConfig()
	}
	execute := (*call).run
	if r := newReporter(cfg.Observer); r != nil {
		execute = r.run
	}
	closed := make(chan struct{})
	return &client{
		config:   config,
		hedges:   hedge.Hedger{Budget: retry.NewBudget(config.HedgingThrottling)},
		tokens:   newTokenSource(cfg, closed),
		log:      cfg.Logger,
		closed:   closed,
		observer: cmp.Or[observe.Observer](observe.Multi(cfg.Observer, cfg.Outages), observe.None{}),
		execute:  execute,
		name:     new(names).of,
	}
}

// Caller executes calls over one connection, by the rules of package retry. It is the
// grpc.ClientConnInterface that the API client is built on.
type Caller struct {
	*client
	conn   grpc.ClientConnInterface
	budget *retry.Budget // for retries
	// monitor has the endpoints of conn; it is empty if they are unknown.
	monitor *balancer.Monitor
	// width is how many endpoints a call can choose from.
	width func() int
	// class is the default class of calls and streams.
	class balancer.ConnClass
	// single is set if conn leads to one endpoint.
	single bool
}

var _ grpc.ClientConnInterface = (*Caller)(nil)

func (c *client) newCaller(conn grpc.ClientConnInterface, width func() int) *Caller {
	return &Caller{
		client: c, conn: conn, width: width, monitor: new(balancer.Monitor),
		budget: retry.NewBudget(c.config.Throttling),
	}
}

// Invoke executes a unary call, in as many attempts as are safe and useful. Each attempt first
// fetches a token if one is required and missing. User interceptors see each attempt once; a hedge
// runs concurrently with its primary attempt.
func (c *Caller) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if c.single {
		if _, bounded := ctx.Deadline(); !bounded {
			opts = append(slices.Clip(opts), grpc.WaitForReady(false))
		}
	}
	started := &call{caller: c, method: method, req: req, reply: reply, opts: opts}
	started.first.caller = ctx //nolint:fatcontext // of this call alone
	c.setProperties(&started.properties, method, req)
	if method == pb.KV_Txn_FullMethodName {
		started.allowRepeats()
	}
	err := c.execute(started)
	if !c.single && (err != nil || c.failing.Load() != nil) {
		c.note(err)
	}
	return err
}

// singleTokenWait bounds how long a call to one endpoint waits for a token, which the other
// members may be unable to issue. The endpoint may answer without one.
const singleTokenWait = 2 * time.Second

// fetchToken fetches a token if one is required and missing. A call to one endpoint goes on without
// one after singleTokenWait.
func (c *Caller) fetchToken(ctx context.Context) error {
	if !c.single {
		return c.tokens.ensure(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, singleTokenWait)
	defer cancel()
	err := c.tokens.ensure(bounded)
	if bounded.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// NewStream opens a stream with the token of the client. It is not retried: only the
// owner of a broken stream knows where to resume, see [Retrier].
//
// The owner reads the stream until RecvMsg fails, or ends its context.
func (c *Caller) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.openStream(ctx, new(attempt), method, c.propertiesOf(method, nil), func(a *attempt) (grpc.ClientStream, error) {
		return c.conn.NewStream(a.ctx, desc, method, opts...)
	})
}

// learnTerm records the term in the reply of an attempt that needed a leader. It requests the roles
// of endpoints if the term is new and no member has named its leader.
func (c *Caller) learnTerm(a *balancer.Attempt, term uint64) {
	if a.Endpoint().ServedInTerm(term, a.Began()) && ledTerm(c.monitor) < term {
		a.Endpoint().RolesChanged()
	}
}

// ledTerm returns the highest term in which a member knows a leader.
func ledTerm(m *balancer.Monitor) uint64 {
	var term uint64
	for _, ep := range m.Endpoints() {
		if role := etcdprobe.RoleOf(ep.Health()); role.Leader != 0 {
			term = max(term, role.Term)
		}
	}
	return term
}

// propertiesOf returns the properties of a call over this caller.
func (c *Caller) propertiesOf(method string, req any) (p properties) {
	c.setProperties(&p, method, req)
	return p
}

func (c *Caller) setProperties(p *properties, method string, req any) {
	p.set(method, req)
	if p.conn == balancer.Calls {
		p.conn = c.class
	}
	if !p.hedged {
		p.large = c.large.has(req)
	}
}

// Calls that a user makes on the bare *grpc.ClientConn (ActiveConnection, Dial) do not
// pass a caller. They have gRPC's usual semantics and no retries. Only the token is
// attached and renewed, as the user cannot know when it expires.

// lastUnary is the last of the chained unary interceptors of the client's connections.
func (c *client) lastUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if a := attemptFrom(ctx); a != nil {
		a.called.Store(true)
		err := invoke(ctx, method, req, reply, cc, c.tokens.attach(opts, method, a)...)
		if err != nil {
			err = c.withoutEOF(a, err)
		}
		if err == nil || retry.OutcomeOfAttempt(err, retry.Evidence{Sent: a.MaySent(), Answered: a.Answered(), Method: method}) != retry.OutcomeNotExecuted {
			a.executions.Add(1)
		}
		return err
	}
	for refreshes := 0; ; refreshes++ {
		a := new(attempt)
		p := propertiesOf(method, req)
		c.start(ctx, a, &p)
		err := invoke(a.ctx, method, req, reply, cc, c.tokens.attach(opts, method, a)...)
		a.release()
		if err == nil {
			return nil
		}
		ev, err := a.outcome("", c.withoutEOF(a, err)) // any service of etcd may say that the token is invalid
		if refreshes == maxTokenRefreshes || retry.Classify(err, ev) != retry.Token || c.tokens.invalidate(a, err) == notRenewed {
			return err
		}
		// A lock may have refused the token after its first steps: the next call has a new one.
		if failed := c.tokens.ensure(ctx); failed != nil || retry.Classify(err, retry.Evidence{Sent: true, Method: method}) != retry.Token {
			return cmp.Or(failed, err)
		}
	}
}

// withoutEOF replaces a bare io.EOF. gRPC 1.85 returns it for a call that a server has refused unread, if the connection is
// lost before gRPC has sent the call again.
func (c *client) withoutEOF(a *attempt, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	return status.Errorf(codes.Unavailable, "the connection to %s was lost before the request was sent", c.name(a.endpoint()))
}

// lastStream is the last of the chained stream interceptors.
func (c *client) lastStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if a := attemptFrom(ctx); a != nil {
		return streamer(ctx, desc, cc, method, c.tokens.attach(opts, method, a)...)
	}
	a := new(attempt)
	a.marks.Store(markOwn)
	return c.openStream(ctx, a, method, propertiesOf(method, nil), func(a *attempt) (grpc.ClientStream, error) {
		return streamer(a.ctx, desc, cc, method, c.tokens.attach(opts, method, a)...)
	})
}
