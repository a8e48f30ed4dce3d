package clientv3

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/watch"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/outage"
	"github.com/quorate/quorate/retry"
)

var (
	// ErrNoAvailableEndpoints is returned by New for a Config without endpoints.
	ErrNoAvailableEndpoints = errors.New("etcdclient: no available endpoints")

	// ErrOldCluster is returned by New for a cluster that is too old, see
	// [Config.RejectOldCluster].
	ErrOldCluster = errors.New("etcdclient: old cluster version")

	// ErrMutuallyExclusiveCfg is returned by New, bare or wrapped, for a Config with
	// more than one of a token, a user name or password, and a TokenSource.
	ErrMutuallyExclusiveCfg = errors.New("Username/Password and Token configurations are mutually exclusive")
)

// errNoConnection is what calls of a client without a connection fail with.
var errNoConnection = status.Error(codes.FailedPrecondition,
	"etcdclient: this client has no connection: it was made by NewCtxClient, and the service that was called has not been set")

// Client is a session with an etcd cluster. It is safe for concurrent use, and
// one serves a whole program. Its services are the embedded interfaces; a
// program may replace them by wrappers.
type Client struct {
	Cluster
	KV
	Lease
	Watcher
	Auth
	Maintenance

	// Username, Password and Token are what Config said. They are read whenever a
	// token is needed, until the first [Client.SetToken] or [Client.SetCredentials].
	// To assign them is a data race while calls, watches or leases are under way:
	// use these methods, which are safe at any time.
	Username string
	Password string
	Token    string

	cfg      Config
	replaced atomic.Pointer[channel.Login] // what SetToken and SetCredentials set
	leftOut  atomic.Pointer[string]        // the endpoints that Sync warned of last
	channel  *channel.Channel              // nil in a client made by NewCtxClient
	outages  *outage.Reporter              // nil in the same
	callOpts []grpc.CallOption
	watches  *watch.Budget    // of all its Watchers; nil in the same
	history  *lineage.Tracker // of its cluster
	lg       atomic.Pointer[zap.Logger]
	watchers services[watcher]
	lessors  services[lessor]

	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup
}

// New creates a client. It does not wait for a connection, and works with a
// cluster that is yet to start, except that it fetches a token if the
// configuration has a user name and a password or a TokenSource, and asks for
// versions if it says RejectOldCluster; DialTimeout bounds these.
//
// Errors name the field of the configuration that is wrong, or are the
// server's (rpctypes.ErrAuthFailed for a wrong password), or wrap the
// TokenSource's, or are context.DeadlineExceeded when DialTimeout has passed.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	retryConfig, err := cfg.retryConfig()
	if err != nil {
		return nil, err
	}
	lg, err := cfg.logger()
	if err != nil {
		return nil, err
	}
	parent := cfg.Context
	if parent == nil {
		parent = context.Background()
	}
	c := newClient(parent)
	c.cfg = cfg
	c.Username, c.Password, c.Token = cfg.Username, cfg.Password, cfg.Token
	c.callOpts = cfg.callOptions()
	c.watches = watch.NewBudget(cfg.maxTotalWatchBuffer())
	c.lg.Store(lg)
	c.outages = outage.New(c.GetLogger)
	c.channel, err = channel.New(c.channelConfig(retryConfig))
	if err == nil && cfg.AllowInsecureSync && cfg.authenticates() && c.channel.Secured() {
		_ = c.channel.Close() // it has done nothing yet
		err = errInsecureSync
	}
	if err != nil {
		c.outages.Close()
		c.cancel()
		return nil, err
	}
	c.Cluster = NewCluster(c)
	c.KV = NewKV(c)
	c.Lease = NewLease(c)
	c.Watcher = NewWatcher(c)
	c.Auth = NewAuth(c)
	c.Maintenance = NewMaintenance(c)
	if err := c.greet(); err != nil {
		_ = c.Close() // the reason to close it is what matters
		return nil, err
	}
	if cfg.AutoSyncInterval > 0 {
		c.background.Go(c.autoSync)
	}
	return c, nil
}

func (c *Client) channelConfig(retryConfig *retry.Config) channel.Config {
	return channel.Config{
		Endpoints:         c.cfg.Endpoints,
		TLS:               c.cfg.TLS,
		Roots:             c.cfg.roots(),
		AllowInsecureSync: c.cfg.AllowInsecureSync,

		DisableProbes:        c.cfg.DisableHealthChecks,
		DisableHealthSharing: c.cfg.DisableHealthSharing,
		WriteStallTimeout:    c.writeStallTimeout(),

		Login:         c.login,
		TokenSource:   c.cfg.TokenSource,
		Retry:         retryConfig,
		Balancing:     channel.Balancing{Strategy: c.cfg.Balancer},
		ServiceConfig: c.cfg.ServiceConfig,
		KeepAlive:     c.cfg.keepAlive(),
		DialOptions:   c.cfg.DialOptions,
		Logger:        c.GetLogger,
		Observer:      observe.Multi(c.cfg.Observer, c.outages),
	}
}

// NewFromURL creates a client with one endpoint and defaults.
func NewFromURL(url string) (*Client, error) { return New(Config{Endpoints: []string{url}}) }

// NewFromURLs creates a client with several endpoints and defaults.
func NewFromURLs(urls []string) (*Client, error) { return New(Config{Endpoints: urls}) }

// Option configures a client made by [NewCtxClient].
type Option func(*Client)

// WithZapLogger sets the logger; without it nothing is logged.
func WithZapLogger(lg *zap.Logger) Option { return func(c *Client) { c.lg.Store(lg) } }

// NewCtxClient creates a client without a connection, for programs that set
// its services themselves, such as an embedded server. Services that they do
// not set are nil. Its context is a child of ctx.
func NewCtxClient(ctx context.Context, opts ...Option) *Client {
	c := newClient(ctx)
	c.lg.Store(zap.NewNop())
	for _, opt := range opts {
		opt(c)
	}
	return c
}

func newClient(parent context.Context) *Client {
	c := &Client{history: lineage.New(clusterChanged)}
	c.ctx, c.cancel = context.WithCancel(parent)
	return c
}

// writeStallTimeout is that of the channel. Without health checks nothing is known that
// would end a write early.
func (c *Client) writeStallTimeout() time.Duration {
	if c.cfg.DisableHealthChecks {
		return -1
	}
	return c.cfg.WriteStallTimeout
}

// greet does what New does over the network.
func (c *Client) greet() error {
	ctx := c.ctx
	if c.cfg.DialTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.DialTimeout)
		defer cancel()
	}
	if err := c.channel.Authenticate(ctx); err != nil {
		return ContextError(ctx, err)
	}
	if c.cfg.RejectOldCluster {
		return c.checkVersion(ctx)
	}
	return nil
}

// SetToken replaces what the client authenticates with by a token (a JWT): the one
// before, a user name and a password, or [Config.TokenSource], which is not called any
// more. "" means no token. Calls and streams that begin after it carry the token; a
// stream that is open keeps its own until the server refuses that. It is safe for
// concurrent use.
func (c *Client) SetToken(token string) { c.setLogin(channel.Login{Token: token}) }

// SetCredentials replaces what the client authenticates with by a user name and a
// password, as [Client.SetToken] does by a token. It does not check them: the next call
// fetches a token with them, and fails with rpctypes.ErrAuthFailed if they are wrong.
func (c *Client) SetCredentials(username, password string) {
	c.setLogin(channel.Login{Username: username, Password: password})
}

func (c *Client) setLogin(login channel.Login) {
	c.replaced.Store(&login)
	if c.channel != nil {
		c.channel.LoginChanged()
	}
}

func (c *Client) login() channel.Login {
	if login := c.replaced.Load(); login != nil {
		return *login
	}
	return channel.Login{
		Username: c.Username, Password: c.Password, Token: c.Token, FromSource: c.cfg.TokenSource != nil,
	}
}

// Close ends the client: its calls in flight, its background work and its
// connections. Calls after it fail at once, with an error for which
// IsConnCanceled is true. A second Close returns context.Canceled.
func (c *Client) Close() error {
	c.cancel()
	if c.Watcher != nil {
		_ = c.Watcher.Close() // it reports nothing that Close could act on
	}
	if c.Lease != nil {
		_ = c.Lease.Close() // it reports nothing that Close could act on
	}
	c.background.Wait()
	if c.channel == nil {
		return c.ctx.Err()
	}
	c.outages.Close()
	return ContextError(c.ctx, c.channel.Close())
}

// EndpointStatus returns what the client knows of each endpoint, in the order of their
// names: its state with the evidence for it, the latest error that it gave or caused,
// and what it last said of itself. It asks nobody, see [Maintenance.Status] for that. It
// is empty for a client without a connection, and until the first call.
func (c *Client) EndpointStatus() []health.Status {
	if c.channel == nil {
		return nil
	}
	return c.channel.Statuses()
}

// Ctx returns the client's context, which ends with Close. It is for calls
// that must be made when another context has ended, such as a clean-up.
func (c *Client) Ctx() context.Context { return c.ctx }

// Endpoints returns the endpoints in force, as they were given. It is empty,
// never nil, for a client without a connection.
func (c *Client) Endpoints() []string {
	if c.channel == nil {
		return []string{}
	}
	return c.channel.Endpoints()
}

// SetEndpoints replaces the endpoints. Calls in flight finish where they are,
// new ones go to the new endpoints. Endpoints that cannot be understood are
// left out, with a warning in the log; with none left, calls wait for the next
// SetEndpoints or the end of their context. It does nothing to a client
// without a connection.
//
// The program names these endpoints itself, so http URLs among them are used even
// by a client with TLS ([Config.AllowInsecureSync] is about others), and a change of
// the scheme alone, from http to https, makes a new connection.
func (c *Client) SetEndpoints(eps ...string) {
	if c.channel != nil {
		c.channel.SetEndpoints(eps)
	}
}

// Dial returns a new connection to one endpoint, with the client's
// configuration and token, for use with generated gRPC clients. Calls on it
// are not retried. The caller closes it.
func (c *Client) Dial(ep string) (*grpc.ClientConn, error) {
	if c.channel == nil {
		return nil, errNoConnection
	}
	return c.channel.Dial(ep)
}

// ActiveConnection returns the client's connection, for use with generated gRPC
// clients. Calls on it go to any endpoint and are not retried. It is nil for a
// client without a connection, and must not be closed.
func (c *Client) ActiveConnection() *grpc.ClientConn {
	if c.channel == nil {
		return nil
	}
	return c.channel.Conn()
}

// WithLogger replaces the logger.
//
// Deprecated: use [Config.Logger] or [WithZapLogger].
func (c *Client) WithLogger(lg *zap.Logger) *Client {
	c.lg.Store(lg)
	return c
}

// GetLogger returns the client's logger. It is meant for the packages beside
// this one.
func (c *Client) GetLogger() *zap.Logger { return c.lg.Load() }

// transport carries the client's calls. It is never nil: calls of a client
// that has no connection fail with an error that says so.
func (c *Client) transport() grpc.ClientConnInterface {
	if c == nil || c.channel == nil {
		return noConnection{}
	}
	return c.channel
}

// at carries calls to one endpoint, over a connection that is kept for the next call.
func (c *Client) at(ep string) (grpc.ClientConnInterface, error) {
	if c == nil || c.channel == nil {
		return nil, errNoConnection
	}
	return c.channel.At(ep)
}

// over carries calls over a connection that the user made.
func (c *Client) over(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	if c == nil || c.channel == nil {
		return conn
	}
	return c.channel.Over(conn)
}

// retrier decides when a stream of the given method is opened again.
func (c *Client) retrier(method string) *channel.Retrier {
	if c == nil || c.channel == nil {
		return channel.DefaultRetrier(method)
	}
	return c.channel.Retrier(method)
}

// streamRetrier is retrier for streams that live long.
func (c *Client) streamRetrier(method string) *channel.Retrier {
	if c == nil || c.channel == nil {
		return channel.DefaultRetrier(method)
	}
	return c.channel.Streams().Retrier(method)
}

// noConnection is the transport of a client without a connection.
type noConnection struct{}

func (noConnection) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errNoConnection
}

func (noConnection) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errNoConnection
}
