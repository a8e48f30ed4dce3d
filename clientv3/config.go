package clientv3

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/internal/slogzap"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

const (
	// defaultKeepAliveTime is how long a connection with calls or streams on it
	// may be silent before gRPC pings the server. It is the least that gRPC
	// allows, and twice the least that an etcd server accepts (5 s).
	defaultKeepAliveTime = 10 * time.Second

	// defaultKeepAliveTimeout is how long the answer to a ping may take: gRPC's
	// own default. Pings are a backstop behind the balancer's prober, which needs a
	// witness before it closes a connection; a network that is away for 10 s must not
	// end every connection at once. gRPC also makes it the kernel's TCP_USER_TIMEOUT
	// (gRFC A18).
	defaultKeepAliveTimeout = 20 * time.Second

	// defaultMaxCallSendMsgSize is the server's default limit for a request,
	// 1.5 MiB, with room for what surrounds it: the server's refusal names the
	// limit, gRPC's does not.
	defaultMaxCallSendMsgSize = 2 << 20

	// defaultMaxCallRecvMsgSize is no limit.
	defaultMaxCallRecvMsgSize = math.MaxInt32
)

// Config configures a [Client]. Only Endpoints is required; the zero value of
// every other field means a default that suits production.
type Config struct {
	// Endpoints are the addresses of the cluster's members, in any form that
	// etcd accepts: "host:port", "http://host:port", "https://host:port",
	// "unix:path", "unixs:path". Each one decides for itself whether its
	// connections use TLS: http never, https and unixs always, the others if
	// TLS is set. A client with TLS set, or with an endpoint that uses it, sends no
	// token and no password to one in clear: the call fails with
	// codes.Unauthenticated, and is not repeated.
	Endpoints []string `json:"endpoints"`

	// AutoSyncInterval is the time between updates of the endpoints from the
	// cluster's membership, as [Client.Sync] does them. The first update runs
	// soon after New; intervals vary by 10 %, so that clients started together
	// do not ask together. 0, the default, disables auto-sync.
	AutoSyncInterval time.Duration `json:"auto-sync-interval"`

	// DialTimeout bounds what New does over the network: fetching a token and,
	// with RejectOldCluster, asking for versions. 0, the default, leaves the
	// bound to Context. Connections are made in the background and are not
	// bounded by it.
	DialTimeout time.Duration `json:"dial-timeout"`

	// DialKeepAliveTime is the silence after which gRPC pings the server. The
	// default is 10 s, and less is not possible. A negative value disables
	// gRPC's pings; the kernel's keepalive, which gives a host up after 20 s
	// without a sign of life, on idle connections too, is always on. Neither is how
	// a dead member is found in the first place: see package balancer.
	DialKeepAliveTime time.Duration `json:"dial-keep-alive-time"`

	// DialKeepAliveTimeout is how long to wait for the answer to a ping, and on
	// Linux for the acknowledgement of sent data (TCP_USER_TIMEOUT), before the
	// connection is closed. The default is 20 s, gRPC's own. Less than the network's
	// longest interruption ends all connections at once when it happens, and makes
	// the outcome of writes that are under way unknown.
	DialKeepAliveTimeout time.Duration `json:"dial-keep-alive-timeout"`

	// MaxCallSendMsgSize bounds a request, in bytes. The default is 2 MiB, a
	// little over the server's own default (--max-request-bytes, 1.5 MiB). A
	// larger request fails with codes.ResourceExhausted and is not sent.
	MaxCallSendMsgSize int

	// MaxCallRecvMsgSize bounds a response, in bytes. The default,
	// math.MaxInt32, is right for almost everybody: a write whose response is
	// refused for its size has been executed all the same.
	MaxCallRecvMsgSize int

	// TLS secures connections, see Endpoints. A configuration made by
	// [NewClientConfig] follows changes of the certificate, key and CA files.
	TLS *tls.Config

	// Username and Password authenticate the client. New fetches a token with
	// them, which is renewed when the server refuses it.
	Username string `json:"username"`
	Password string `json:"password"`

	// Token is a JWT to authenticate with in place of Username and Password.
	// The client cannot renew it; [Client.SetToken] replaces it.
	Token string `json:"token"`

	// RejectOldCluster makes New fail with ErrOldCluster if a member runs a
	// version older than the minor release before this client's.
	RejectOldCluster bool `json:"reject-old-cluster"`

	// DialOptions are passed to gRPC after the client's own. Interceptors see
	// every attempt of a call, and a read's hedge beside the attempt that it backs
	// up; retries and tokens do not depend on them.
	DialOptions []grpc.DialOption

	// Context is the parent of the client's context: when it ends, so does
	// what the client does in the background. The default is
	// context.Background().
	Context context.Context

	// Logger is used if set; otherwise Slog; otherwise one is built from LogConfig;
	// otherwise the default logger is used, see [ClientLogLevel].
	Logger    *zap.Logger
	LogConfig *zap.Config

	// PermitWithoutStream lets gRPC ping on connections without calls or
	// streams. An etcd server answers that with a GOAWAY (too_many_pings)
	// unless it is configured to allow it.
	PermitWithoutStream bool `json:"permit-without-stream"`

	// MaxUnaryRetries bounds the attempts of a unary call, the first included:
	// 1 disables retries. 0, the default, leaves the bound to the deadline of
	// the call's context. A call without one ends with its last error when it has
	// failed for 15 s. To wait for a connection is no failure: while no endpoint can
	// be reached, every call waits until its context ends, whatever this says.
	MaxUnaryRetries uint `json:"max-unary-retries"`

	// BackoffWaitBetween is the delay before the first retry of a call, which
	// grows with each further one. The default is 10 ms.
	BackoffWaitBetween time.Duration `json:"backoff-wait-between"`

	// BackoffJitterFraction is the fraction, between 0 and 1, by which a delay
	// varies. The default, 0, means full jitter: a random part of the delay.
	BackoffJitterFraction float64 `json:"backoff-jitter-fraction"`

	// MaxWatchBufferBytes bounds what one watch holds for a reader who is slower
	// than its events, in bytes of memory. Past it the watch pauses, and goes on
	// where it stopped when half of that is read, see [Watcher]. A watch that is
	// catching up may hold as much again. The default is 16 MiB.
	MaxWatchBufferBytes int `json:"max-watch-buffer-bytes"`

	// MaxTotalWatchBufferBytes bounds what all watches of the client hold so, in bytes of
	// memory. A watch may hold a quarter of what is left, so with many slow readers each
	// pauses sooner, and there is room for watches whose readers keep up. When nothing is
	// left a watch may still hold 1/1024 of MaxWatchBufferBytes, and the response with
	// which it pauses. The default is eight times MaxWatchBufferBytes: 128 MiB.
	MaxTotalWatchBufferBytes int `json:"max-total-watch-buffer-bytes"`

	// DisableSplitReplay has a watch that is thousands of revisions behind catch up as one
	// watcher, at the pace of the server: etcd sends it 1,000 revisions each 100 ms. By
	// default it is split into up to 64 parts of the history, which several watchers on
	// up to four streams apart deliver at the same time, several times faster; events reach
	// the caller in the same order either way. Only servers that behave as etcd 3.4.25,
	// 3.5.8 and later do get such parts; other versions, the grpc-proxy and kine do not.
	DisableSplitReplay bool `json:"disable-split-replay"`

	// Balancer is the strategy that chooses the endpoint of each call among those that
	// can serve it: "round_robin", "pinned", "leader", "nearest" or "p2c"; each has a
	// package below balancer that says when to use it. Default: that of ServiceConfig,
	// and without one "round_robin".
	Balancer string `json:"balancer"`

	// ServiceConfig is a gRPC service config in JSON, of which methodConfig's
	// retryPolicy and hedgingPolicy, retryThrottling and hedgingThrottling are
	// used, see package retry, and loadBalancingConfig, see package balancer. The
	// fields above, where set, take precedence over it.
	ServiceConfig string `json:"service-config"`

	// DisableHealthChecks switches off what the client does about endpoints that are
	// silent: probes, preferring others, and ending streams and calls early on an endpoint
	// that does not answer while others do. Calls then wait for their deadline, a broken
	// connection or gRPC's keepalive, as with the official client. What endpoints say of
	// themselves, no leader for instance, still counts.
	DisableHealthChecks bool `json:"disable-health-checks"`

	// DisableHedging keeps reads at one endpoint at a time. By default a read whose answer
	// is overdue is sent to a second one, for one read in twenty at most.
	DisableHedging bool `json:"disable-hedging"`

	// DisableHealthSharing keeps what this client learns of its endpoints to itself. By
	// default all clients of a process share it, for endpoints with the same address whose
	// servers they authenticate in the same way: one of them probes for all, and a fault
	// that one finds is avoided by all. A client whose DialOptions bring a dialer or
	// transport credentials shares nothing.
	DisableHealthSharing bool `json:"disable-health-sharing"`

	// WriteStallTimeout is how long a write may wait on a member that is alive but completes
	// nothing while other members do, or that was overtaken by a change of leader. It then
	// ends with a *retry.UnknownOutcomeError, so a shorter time tells the caller sooner and
	// makes more outcomes unknown: a stall of the disk that passes answers all writes. The
	// default is 2 s. A negative value leaves writes to their deadlines. Writes on a member
	// that is dead, or says that it has no leader while others have one, end at once.
	WriteStallTimeout time.Duration `json:"write-stall-timeout"`

	// Observer, if set, is told what the client does and finds: which endpoints are
	// used, ejected and readmitted, what is repeated, moved or lost. Its methods are
	// called on the way of calls and must return at once; see package observe, and
	// docs/observing.md for metrics. nil, the default, costs nothing.
	Observer observe.Observer `json:"-"`

	// Slog, if set, gets what the client logs: a line when an outage starts and one when it
	// ends, and every attempt that fails at level Debug. It holds no value, token or password.
	// New refuses it beside Logger.
	Slog *slog.Logger `json:"-"`

	// AllowInsecureSync lets [Client.Sync] and auto-sync take http URLs that members
	// advertise into a client that has TLS set or an endpoint that uses it. By
	// default such a client leaves them out, with a warning in the log: whoever
	// controls the membership, or the network on the way to such a URL, reads and
	// forges all that the client does there. Tokens and passwords are not sent in
	// clear all the same, so New refuses it beside Username, Token or TokenSource.
	// Endpoints that the program names itself do not need it.
	AllowInsecureSync bool `json:"allow-insecure-sync"`

	// TokenSource returns a JWT, for tokens that rotate, in place of Token, Username
	// and Password. It is called by New, within DialTimeout, and after that when the
	// server has refused the last token: return another one then. It is never called
	// concurrently, and one answer serves all calls that wait for it. Its context ends
	// when none of them waits any more; it must return then. Its error fails these
	// calls, wrapped, while watches and leases ask again after a pause. It must not
	// use the client.
	TokenSource func(ctx context.Context) (string, error) `json:"-"`

	// ca is where NewClientConfig got TLS.RootCAs from.
	ca *caFile
}

// validate checks all that can be checked without doing anything. The errors
// name the field.
func (cfg *Config) validate() error {
	switch {
	case len(cfg.Endpoints) == 0:
		return ErrNoAvailableEndpoints
	case cfg.Token != "" && (cfg.Username != "" || cfg.Password != ""):
		return ErrMutuallyExclusiveCfg
	case cfg.Slog != nil && cfg.Logger != nil:
		return errors.New("both Logger and Slog are set: the client logs to one of them")
	case cfg.TokenSource != nil && (cfg.Token != "" || cfg.Username != "" || cfg.Password != ""):
		return errTokenSources
	case cfg.AutoSyncInterval < 0:
		return fmt.Errorf("AutoSyncInterval is %v: it cannot be negative; 0 disables auto-sync", cfg.AutoSyncInterval)
	case cfg.DialTimeout < 0:
		return fmt.Errorf("DialTimeout is %v: it cannot be negative; 0 means no timeout", cfg.DialTimeout)
	case cfg.BackoffWaitBetween < 0:
		return fmt.Errorf("BackoffWaitBetween is %v: it cannot be negative; 0 means the default", cfg.BackoffWaitBetween)
	case cfg.BackoffJitterFraction < 0 || cfg.BackoffJitterFraction > 1:
		return fmt.Errorf("BackoffJitterFraction is %v: it must be between 0 and 1", cfg.BackoffJitterFraction)
	case cfg.MaxCallSendMsgSize < 0:
		return fmt.Errorf("MaxCallSendMsgSize is %d bytes: it cannot be negative; 0 means the default", cfg.MaxCallSendMsgSize)
	case cfg.MaxCallRecvMsgSize < 0:
		return fmt.Errorf("MaxCallRecvMsgSize is %d bytes: it cannot be negative; 0 means the default", cfg.MaxCallRecvMsgSize)
	case cfg.MaxWatchBufferBytes < 0:
		return fmt.Errorf("MaxWatchBufferBytes is %d bytes: it cannot be negative; 0 means the default", cfg.MaxWatchBufferBytes)
	case cfg.MaxTotalWatchBufferBytes < 0:
		return fmt.Errorf("MaxTotalWatchBufferBytes is %d bytes: it cannot be negative; 0 means the default", cfg.MaxTotalWatchBufferBytes)
	case cfg.MaxCallRecvMsgSize > 0 && cfg.MaxCallSendMsgSize > cfg.MaxCallRecvMsgSize:
		return fmt.Errorf("gRPC message recv limit (%d bytes) must be greater than send limit (%d bytes)", cfg.MaxCallRecvMsgSize, cfg.MaxCallSendMsgSize)
	}
	return nil
}

// errTokenSources is returned by New for a Config with a TokenSource and something else
// to authenticate with.
var errTokenSources = fmt.Errorf("TokenSource is set beside Token, Username or Password: %w", ErrMutuallyExclusiveCfg)

// errInsecureSync is returned by New for a Config whose endpoints in clear, which
// AllowInsecureSync lets in, could not serve the calls of a user.
var errInsecureSync = errors.New("AllowInsecureSync is set beside Username, Token or TokenSource: " +
	"a client with TLS sends no token in clear, so calls to the endpoints that it lets in would fail")

// authenticates reports whether calls carry a token.
func (cfg *Config) authenticates() bool {
	return cfg.Username != "" || cfg.Token != "" || cfg.TokenSource != nil
}

// retryConfig merges the service config with the fields that the official
// client has for the same purpose.
func (cfg *Config) retryConfig() (*retry.Config, error) {
	rc := retry.DefaultConfig()
	if cfg.ServiceConfig != "" {
		var err error
		if rc, err = retry.ParseServiceConfig(cfg.ServiceConfig); err != nil {
			return nil, fmt.Errorf("ServiceConfig: %w", err)
		}
	}
	if cfg.DisableHedging {
		rc.DisableHedging()
	}
	rc.Override(func(p *retry.Policy) {
		if cfg.MaxUnaryRetries > 0 {
			p.MaxAttempts = int(min(cfg.MaxUnaryRetries, 1<<30))
		}
		if cfg.BackoffWaitBetween > 0 {
			p.InitialBackoff = cfg.BackoffWaitBetween
			p.MaxBackoff = max(p.MaxBackoff, cfg.BackoffWaitBetween)
		}
		if cfg.BackoffJitterFraction > 0 {
			p.Jitter = cfg.BackoffJitterFraction
		}
	})
	return rc, nil
}

func (cfg *Config) keepAlive() keepalive.ClientParameters {
	p := keepalive.ClientParameters{
		Time:                cfg.DialKeepAliveTime,
		Timeout:             cfg.DialKeepAliveTimeout,
		PermitWithoutStream: cfg.PermitWithoutStream,
	}
	if p.Time == 0 {
		p.Time = defaultKeepAliveTime
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultKeepAliveTimeout
	}
	return p
}

func (cfg *Config) logger() (*zap.Logger, error) {
	switch {
	case cfg.Logger != nil:
		return cfg.Logger, nil
	case cfg.Slog != nil:
		return slogzap.New(cfg.Slog.Handler()), nil
	case cfg.LogConfig != nil:
		lg, err := cfg.LogConfig.Build()
		if err != nil {
			return nil, fmt.Errorf("LogConfig: %w", err)
		}
		return lg, nil
	default:
		return defaultLogger()
	}
}

// callOptions are those of every call of the API. They are options of the
// calls and not of the connection, because a user's own connections
// ([Client.Dial]) keep gRPC's defaults.
func (cfg *Config) callOptions() []grpc.CallOption {
	send, recv := cfg.maxCallSizes()
	return []grpc.CallOption{
		grpc.WaitForReady(true),
		grpc.MaxCallSendMsgSize(send),
		grpc.MaxCallRecvMsgSize(recv),
	}
}

// maxCallSizes returns the bounds of requests and responses, in bytes.
func (cfg *Config) maxCallSizes() (send, recv int) {
	return cmp.Or(cfg.MaxCallSendMsgSize, defaultMaxCallSendMsgSize), cmp.Or(cfg.MaxCallRecvMsgSize, defaultMaxCallRecvMsgSize)
}
