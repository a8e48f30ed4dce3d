package clientv3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/internal/lineage"
	"github.com/quorate/quorate/clientv3/internal/watch"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/channel"
	"github.com/quorate/quorate/observe/introspect"
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

// errNoConnection is the error of every call of a client without a connection.
var errNoConnection = status.Error(codes.FailedPrecondition,
	"etcdclient: this client has no connection: it was made by NewCtxClient, and the service that was called has not been set")

// Client is a session with an etcd cluster. It is safe for concurrent use; one
// client serves a whole program. Its services are the embedded interfaces; a
// program may replace them by wrappers.
type Client struct {
	Cluster
	KV
	Lease
	Watcher
	Auth
	Maintenance

	// Username, Password and Token come from Config. The client reads them whenever
	// it needs a token, until the first call of [Client.SetToken] or
	// [Client.SetCredentials]. Assigning to them while calls, watches or leases are
	// in flight is a data race: use these two methods, which are safe at any time.
	Username string
	Password string
	Token    string

	cfg      Config
	replaced atomic.Pointer[channel.Login] // what SetToken and SetCredentials set
	leftOut  atomic.Pointer[string]        // the endpoints named in Sync's last warning
	channel  *channel.Channel              // nil if made by NewCtxClient
	outages  *outage.Reporter              // nil if made by NewCtxClient
	detach   func()                        // from the observer
	callOpts []grpc.CallOption
	watches  *watch.Budget    // of all its Watchers; nil if made by NewCtxClient
	history  *lineage.Tracker // of its cluster
	added    reporters
	lg       atomic.Pointer[zap.Logger]
	watchers services[watcher]
	lessors  services[lessor]

	ctx    context.Context
	cancel context.CancelFunc
}

// New creates a client. It does not wait for a connection, so the cluster may start
// later. New uses the network in three cases only, bounded by DialTimeout: it fetches
// a token if cfg has a user name and password or a TokenSource, it reads the
// members' versions if RejectOldCluster is set, and waits for the cluster if
// WaitReady is, without DialTimeout for 15 s.
//
// An error names the invalid field of cfg, or is the server's
// (rpctypes.ErrAuthFailed for a wrong password), or wraps the TokenSource's, or is
// context.DeadlineExceeded after DialTimeout, or is that of the connection if
// RejectOldCluster finds no member that answers, or is a *[NotReadyError] of
// WaitReady.
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
	var made atomic.Pointer[channel.Channel] // lines may be logged before the field is set
	c.outages = outage.New(c.GetLogger, func() []health.Status {
		if ch := made.Load(); ch != nil {
			return ch.Statuses()
		}
		return nil
	})
	c.channel, err = channel.New(c.channelConfig(retryConfig))
	made.Store(c.channel)
	if err == nil && cfg.AllowInsecureSync && cfg.authenticates() && c.channel.Secured() {
		_ = c.channel.Close() // no call has used it yet
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
	c.detach = introspect.Attach(cfg.Observer, c)
	if err := c.connect(); err != nil {
		_ = c.Close() // the caller gets the first error
		return nil, err
	}
	if cfg.AutoSyncInterval > 0 {
		go c.autoSync()
	}
	return c, nil
}

func (c *Client) channelConfig(retryConfig *retry.Config) channel.Config {
	return channel.Config{
		Endpoints:         c.cfg.Endpoints,
		TLS:               c.cfg.TLS,
		Roots:             c.cfg.roots(c.GetLogger),
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
		Observer:      c.cfg.Observer,
		Outages:       c.outages,
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
	for _, opt := range opts {
		opt(c)
	}
	return c
}

func newClient(parent context.Context) *Client {
	c := &Client{detach: func() {}}
	c.history = lineage.New(c.clusterChanged())
	c.ctx, c.cancel = context.WithCancel(parent)
	return c
}

// writeStallTimeout returns the WriteStallTimeout of the channel: none without health checks, which
// have the evidence to end a write early.
func (c *Client) writeStallTimeout() time.Duration {
	if c.cfg.DisableHealthChecks {
		return -1
	}
	return c.cfg.WriteStallTimeout
}

// waitReady bounds Ready, and New with WaitReady and without DialTimeout.
const waitReady = 15 * time.Second

// connect does the part of New that uses the network.
func (c *Client) connect() error {
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
		if err := c.checkVersion(ctx); err != nil {
			return err
		}
	}
	if !c.cfg.WaitReady {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.cfg.DialTimeout, waitReady))
	defer cancel()
	return c.tryRead(ctx, nil)
}

// SetToken makes the client authenticate with a token (a JWT). It replaces an earlier
// token, a user name and password, or [Config.TokenSource], which is no longer called.
// "" means no token. Calls and streams that begin afterwards carry the token; an open
// stream keeps its own until the server refuses it. SetToken is safe for concurrent
// use.
func (c *Client) SetToken(token string) { c.setLogin(channel.Login{Token: token}) }

// SetCredentials makes the client authenticate with a user name and a password, and
// replaces the same things as [Client.SetToken]. It does not check them: the next call
// fetches a token with them and fails with rpctypes.ErrAuthFailed if they are wrong. Calls after
// it get that error at once: the client tries them again after 1 s, and then less and less often,
// up to once a minute. SetCredentials, also with the same values, ends that wait.
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

// Close ends the client's in-flight calls, background work and connections. Calls
// after it fail at once, with an error for which IsConnCanceled is true. A second
// Close returns context.Canceled.
func (c *Client) Close() error {
	c.cancel()
	if c.Watcher != nil {
		_ = c.Watcher.Close() // it reports nothing that Close could act on
	}
	if c.Lease != nil {
		_ = c.Lease.Close() // it reports nothing that Close could act on
	}
	if c.channel == nil {
		return c.ctx.Err()
	}
	c.outages.Close()
	err := c.channel.Close()
	c.detach() // after the last probe, which counts
	return ContextError(c.ctx, err)
}

// EndpointStatus returns the client's view of each endpoint, sorted by name: its state
// and the evidence for it, its latest error, and its latest status. It sends nothing;
// use [Maintenance.Status] to query a member. The result is empty for a client without a
// connection and before the first call.
func (c *Client) EndpointStatus() []health.Status {
	if c.channel == nil {
		return nil
	}
	return c.channel.Statuses()
}

// Ctx returns the client's context, which ends with Close. Use it for calls that
// must outlive another context, such as a cleanup. That of a Client which was made by
// none of the constructors never ends.
func (c *Client) Ctx() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// Endpoints returns the present endpoints, as configured. It is empty, never nil,
// for a client without a connection.
func (c *Client) Endpoints() []string {
	if c.channel == nil {
		return []string{}
	}
	return c.channel.Endpoints()
}

// SetEndpoints replaces the endpoints. In-flight calls finish where they are; new
// ones go to the new endpoints. Invalid endpoints are skipped, with a warning in
// the log. If none is valid, calls wait for the next SetEndpoints or the end of
// their context. SetEndpoints has no effect on a client without a connection.
//
// The client uses http URLs among them even if it has TLS:
// [Config.AllowInsecureSync] applies only to endpoints that members advertise.
// Changing only the scheme, from http to https, makes a new connection.
func (c *Client) SetEndpoints(eps ...string) {
	if c.channel != nil {
		c.channel.SetEndpoints(eps)
	}
}

// Dial returns a new connection to one endpoint, with the client's configuration
// and token, for generated gRPC clients. Its calls are not retried, but for those
// that etcd refused for their token. The caller closes it.
func (c *Client) Dial(ep string) (*grpc.ClientConn, error) {
	if c.channel == nil {
		return nil, errNoConnection
	}
	return c.channel.Dial(ep)
}

// ActiveConnection returns the client's connection, for generated gRPC clients. Its
// calls go to any endpoint and are retried as those of [Client.Dial]. It is nil for a
// client without a connection. Do not close it.
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

// GetLogger returns the client's logger. It is never nil, and meant for the packages
// layered over this one.
func (c *Client) GetLogger() *zap.Logger {
	if lg := c.lg.Load(); lg != nil {
		return lg
	}
	return zap.NewNop()
}

// transport returns the transport of the client's calls. It is never nil: without a
// connection its calls fail with errNoConnection.
func (c *Client) transport() grpc.ClientConnInterface {
	if c == nil || c.channel == nil {
		return noConnection{}
	}
	return c.channel.Caller
}

// at returns the transport to one endpoint. Its connection is kept for the next call.
func (c *Client) at(ep string) (grpc.ClientConnInterface, error) {
	if c.channel == nil {
		return nil, errNoConnection
	}
	return c.channel.At(ep)
}

// over returns the transport over a connection of the user.
func (c *Client) over(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	if c == nil || c.channel == nil {
		return conn
	}
	return c.channel.Over(conn)
}

// retrier returns the Retrier for streams of the given method.
func (c *Client) retrier(method string) *channel.Retrier {
	if c.channel == nil {
		return channel.DefaultRetrier(method)
	}
	return c.channel.Retrier(method)
}

// streamRetrier is retrier for streams that live long.
func (c *Client) streamRetrier(method string) *channel.Retrier {
	if c.channel == nil {
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

// checkVersion returns ErrOldCluster if a member that answers is too old. After the first
// answer it waits for the others for probeTimeout at most. If none answers, it returns the
// first error.
func (c *Client) checkVersion(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		*StatusResponse
		err error
	}
	eps := c.Endpoints()
	answers := make(chan answer, len(eps))
	for _, ep := range eps {
		go func() {
			resp, err := c.Status(ctx, ep)
			answers <- answer{resp, err}
		}()
	}
	var first error
	var enough <-chan time.Time // nil before the first answer
	for range eps {
		select {
		case a := <-answers:
			if a.err != nil {
				first = cmp.Or(first, a.err)
				continue
			}
			if err := checkMember(a.StatusResponse); err != nil {
				return err
			}
			if enough == nil {
				enough = time.After(probeTimeout)
			}
		case <-enough:
			return nil
		}
	}
	if enough != nil {
		return nil
	}
	return ContextError(ctx, first)
}

func checkMember(resp *StatusResponse) error {
	v, err := semver.NewVersion(resp.Version)
	if err != nil {
		return fmt.Errorf("member %x reports the version %q: %w", resp.Header.GetMemberId(), resp.Version, err)
	}
	if v.LessThan(*oldestSupported()) {
		return ErrOldCluster
	}
	return nil
}

// oldestSupported returns the minor release before the one whose API this client
// uses.
func oldestSupported() *semver.Version {
	v := semver.New(version.Version)
	oldest := &semver.Version{Major: v.Major, Minor: v.Minor}
	for _, known := range version.AllVersions {
		if known.LessThan(semver.Version{Major: v.Major, Minor: v.Minor}) {
			oldest = &semver.Version{Major: known.Major, Minor: known.Minor}
		}
	}
	return oldest
}

// debugEnv is the environment variable that sets the level of the default logger.
const debugEnv = "ETCD_CLIENT_DEBUG"

// With the variable, the default logger is gRPC's too, for the whole process, as with the
// official client.
func init() {
	if os.Getenv(debugEnv) == "" {
		return
	}
	if lg, err := defaultLogger(); err == nil {
		grpclog.SetLoggerV2(zapgrpc.NewLogger(lg))
	}
}

// ClientLogLevel returns the level of the default logger: the zap level named by
// the environment variable ETCD_CLIENT_DEBUG, or info if it is empty or "true". An
// invalid value also means info, and is reported on the standard logger. If the variable is
// set when the program starts, gRPC logs there, too.
func ClientLogLevel() zapcore.Level {
	text := os.Getenv(debugEnv)
	if text == "" || text == "true" {
		return zapcore.InfoLevel
	}
	var level zapcore.Level
	if err := level.Set(text); err != nil {
		log.Printf("Invalid value for environment variable '%s'. Using default level: 'info'", debugEnv)
		return zapcore.InfoLevel
	}
	return level
}

// SetLogger sets the logger of grpc, for the whole process.
//
// Deprecated: call grpclog.SetLoggerV2.
func SetLogger(l grpclog.LoggerV2) { grpclog.SetLoggerV2(l) }

// defaultLoggers caches one logger per level: building a logger costs more than the
// rest of a client.
var defaultLoggers struct {
	sync.Mutex
	byLevel map[zapcore.Level]*zap.Logger
}

// defaultLogger returns the logger of clients without a configured one. It is
// shared and writes JSON to standard error.
func defaultLogger() (*zap.Logger, error) {
	level := ClientLogLevel()
	defaultLoggers.Lock()
	defer defaultLoggers.Unlock()
	if lg, ok := defaultLoggers.byLevel[level]; ok {
		return lg, nil
	}
	lg, err := logutil.CreateDefaultZapLogger(level)
	if err != nil {
		return nil, err
	}
	lg = lg.Named("etcd-client")
	if defaultLoggers.byLevel == nil {
		defaultLoggers.byLevel = make(map[zapcore.Level]*zap.Logger)
	}
	defaultLoggers.byLevel[level] = lg
	return lg, nil
}
