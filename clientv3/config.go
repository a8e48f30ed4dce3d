package clientv3

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/internal/slogzap"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

const (
	// defaultKeepAliveTime is how long a connection with calls or streams on it may
	// be silent before gRPC pings the server. It is gRPC's minimum, and twice the
	// minimum that an etcd server accepts (5 s).
	defaultKeepAliveTime = 10 * time.Second

	// defaultKeepAliveTimeout is how long the answer to a ping may take: gRPC's
	// own default. Pings are a backstop behind the balancer's prober, which needs a
	// witness before it closes a connection; a network that is interrupted for 10 s must not
	// end every connection at once. gRPC also makes it the kernel's TCP_USER_TIMEOUT
	// (gRFC A18).
	defaultKeepAliveTimeout = 20 * time.Second

	// defaultMaxCallSendMsgSize is the server's default limit for a request, 1.5
	// MiB, with room for overhead: the server's error names the limit, gRPC's does
	// not.
	defaultMaxCallSendMsgSize = 2 << 20

	// defaultMaxCallRecvMsgSize is no limit.
	defaultMaxCallRecvMsgSize = math.MaxInt32
)

// Config configures a [Client]. Only Endpoints is required; the zero value of every
// other field selects a default that suits production.
type Config struct {
	// Endpoints are the addresses of the cluster's members, in any form that etcd
	// accepts: "host:port", "http://host:port", "https://host:port", "unix:path",
	// "unixs:path". The form decides whether connections to the endpoint use TLS:
	// http never, https and unixs always, the others if TLS is set or the first of
	// Endpoints uses TLS. A client with TLS set, or with any endpoint that uses TLS, sends
	// no token or password over plaintext: the call goes to an endpoint with TLS, or fails
	// with codes.Unauthenticated if there is none.
	Endpoints []string `json:"endpoints"`

	// AutoSyncInterval is the time between updates of the endpoints from the
	// cluster's membership, as [Client.Sync] does them. The first update runs soon
	// after New; intervals vary by 10 %, which spreads the requests of clients that
	// start together, and are a second at least. 0, the default, disables auto-sync.
	AutoSyncInterval time.Duration `json:"auto-sync-interval"`

	// DialTimeout bounds the network work of New: fetching a token and, with
	// RejectOldCluster, reading versions; and the wait of WaitReady. With 0, the default, only
	// Context bounds the first; the others fail after 15 s if no member can be reached.
	// DialTimeout does not bound connection attempts, which run in the background.
	DialTimeout time.Duration `json:"dial-timeout"`

	// DialKeepAliveTime is the silence after which gRPC pings the server. The
	// default, 10 s, is also the minimum. A negative value disables gRPC's pings.
	// The kernel's keepalive is always on: it closes a connection, idle or not,
	// after 20 s without a sign of life from the host. Dead members are usually
	// detected earlier, by probes: see package balancer.
	DialKeepAliveTime time.Duration `json:"dial-keep-alive-time"`

	// DialKeepAliveTimeout is how long to wait for the answer to a ping, and on
	// Linux for the acknowledgement of sent data (TCP_USER_TIMEOUT), before the
	// connection is closed. The default is 20 s, gRPC's own. If it is shorter than a
	// network interruption, all connections close at once and the outcome of
	// in-flight writes is unknown.
	DialKeepAliveTimeout time.Duration `json:"dial-keep-alive-timeout"`

	// MaxCallSendMsgSize bounds a request, in bytes. The default is 2 MiB, a
	// little over the server's own default (--max-request-bytes, 1.5 MiB). A
	// larger request fails with codes.ResourceExhausted and is not sent.
	MaxCallSendMsgSize int

	// MaxCallRecvMsgSize bounds a response, in bytes. The default, math.MaxInt32,
	// is right for almost every program: a write whose response is rejected for its
	// size has still been executed.
	MaxCallRecvMsgSize int

	// TLS secures connections, see Endpoints. A configuration made by
	// [NewClientConfig] follows changes of the certificate, key and CA files. As with
	// etcd's client, its ServerName has no effect: the certificate of each member is
	// verified for the host in its endpoint, or for the name of grpc.WithAuthority in
	// DialOptions.
	TLS *tls.Config

	// Username and Password authenticate the client. New fetches a token with them;
	// the client renews it when the server refuses it.
	Username string `json:"username"`
	Password string `json:"password"`

	// Token is a JWT to authenticate with in place of Username and Password.
	// The client cannot renew it; [Client.SetToken] replaces it.
	Token string `json:"token"`

	// RejectOldCluster makes New fail with ErrOldCluster if a member that answers is more
	// than one minor release older than this client. New waits 2 s at most for the others
	// after the first answer, and fails with the first error if none answers.
	RejectOldCluster bool `json:"reject-old-cluster"`

	// DialOptions are passed to gRPC after the client's own. Interceptors see every
	// attempt of a call, hedges of reads included. Retries and tokens do not depend
	// on them. One that does not send a call, such as a rate limiter, should fail it with
	// an error that is no gRPC status: the caller gets that error at once. A status counts as
	// a server's: after Unavailable reads are repeated, and a write has an unknown outcome.
	// The windows of flow control are 4 MiB for a stream and 16 MiB for a connection, unless
	// grpc.WithStaticStreamWindowSize and grpc.WithStaticConnWindowSize change them. A stream
	// carries one window in a round trip at most, and holds as much while it is not read.
	DialOptions []grpc.DialOption

	// Context is the parent of [Client.Ctx]. When it ends, auto-sync, caches, sessions and
	// GetStreams end, and new ones fail; other calls, watches and keepalives go on until
	// Close. The default is context.Background().
	Context context.Context

	// Logger is used if set; otherwise Slog; otherwise one is built from LogConfig;
	// otherwise the default logger is used, see [ClientLogLevel].
	Logger    *zap.Logger
	LogConfig *zap.Config

	// PermitWithoutStream lets gRPC ping on connections without calls or
	// streams. An etcd server answers that with a GOAWAY (too_many_pings)
	// unless it is configured to allow it. It has no effect unless DialKeepAliveTime is
	// set, as with the official client.
	PermitWithoutStream bool `json:"permit-without-stream"`

	// MaxUnaryRetries bounds the attempts of a unary call, the first included: 1
	// disables retries. 0, the default, leaves the bound to the deadline of the
	// call's context. A call without a deadline ends with its last error after 15 s
	// of failures. Waiting for a connection does not count as a failure: while no
	// endpoint is reachable, every call waits until its context ends, whatever
	// MaxUnaryRetries is.
	MaxUnaryRetries uint `json:"max-unary-retries"`

	// BackoffWaitBetween is the delay before the first retry of a call. The delay
	// grows with each further retry. The default is 10 ms.
	BackoffWaitBetween time.Duration `json:"backoff-wait-between"`

	// BackoffJitterFraction is the fraction, between 0 and 1, by which a delay
	// varies. The default, 0, means full jitter: a random part of the delay.
	BackoffJitterFraction float64 `json:"backoff-jitter-fraction"`

	// MaxWatchBufferBytes bounds the memory, in bytes, that one watch holds for a
	// slow reader. Past it the watch pauses; it resumes where it stopped when the
	// reader has read half of the buffer, see [Watcher]. A watch that is catching
	// up may hold twice as much. Two responses are held even if they exceed it: the one
	// in the channel and the one with which the watch pauses. Each has one revision, or
	// at most three quarters of MaxWatchBufferBytes plus a fragment: the server's
	// --max-request-bytes and 512 KiB, 2 MiB by default. A response of etcd's grpc-proxy
	// or kine, which send no fragments, has any size. What gRPC has received and the
	// watch has not is not counted. The default is 16 MiB.
	MaxWatchBufferBytes int `json:"max-watch-buffer-bytes"`

	// MaxTotalWatchBufferBytes bounds the memory, in bytes, that all watches of the
	// client hold for slow readers. A watch may hold a quarter of the remaining budget:
	// with many slow readers each pauses sooner, which leaves room for watches whose
	// readers keep up. With no budget left, a watch may still hold 1/1024 of
	// MaxWatchBufferBytes, plus the response in its channel and the one with which it
	// pauses. The default is eight times MaxWatchBufferBytes: 128 MiB.
	MaxTotalWatchBufferBytes int `json:"max-total-watch-buffer-bytes"`

	// DisableSplitReplay makes a watch that is thousands of revisions behind catch up as
	// one watcher, at the server's pace: etcd sends 1,000 revisions every 100 ms. By
	// default the client splits the missing history into up to 64 parts and reads them
	// concurrently, with several watchers on a separate stream, which is several
	// times faster; the caller gets the events in the same order either way. The client
	// splits only on servers that behave like etcd 3.4.25, 3.5.8 and later, not on other
	// versions, the grpc-proxy or kine.
	DisableSplitReplay bool `json:"disable-split-replay"`

	// Balancer is the strategy that chooses the endpoint of each call among those that
	// can serve it: "round_robin", "pinned", "leader", "nearest" or "p2c"; the
	// documentation of each strategy's package below balancer says when to use it. The
	// default is the strategy in ServiceConfig, else "round_robin".
	Balancer string `json:"balancer"`

	// ServiceConfig is a gRPC service config in JSON. The client uses retryPolicy
	// and hedgingPolicy of methodConfig, retryThrottling and hedgingThrottling (see
	// package retry), and loadBalancingConfig (see package balancer). The fields
	// above take precedence where set.
	ServiceConfig string `json:"service-config"`

	// DisableHealthChecks disables the handling of silent endpoints: the client neither
	// probes them, nor prefers others, nor ends calls and streams early on an endpoint
	// that is silent while others answer. Calls then wait for their deadline, a broken
	// connection or gRPC's keepalive, as with the official client. Statements of a member
	// about itself, such as having no leader, still count.
	DisableHealthChecks bool `json:"disable-health-checks"`

	// DisableHedging sends a read to one endpoint at a time. By default an overdue read is
	// also sent to a second endpoint, at most one read in twenty.
	DisableHedging bool `json:"disable-hedging"`

	// DisableHealthSharing keeps this client's endpoint health private. By default the
	// clients of a process share the health of endpoints that have the same address and
	// whose servers they authenticate in the same way: one client probes for all, and all
	// avoid a fault that one finds. A client whose DialOptions set a dialer, transport
	// credentials or an authority shares nothing.
	DisableHealthSharing bool `json:"disable-health-sharing"`

	// WriteStallTimeout is how long a write may wait on a member that is alive but completes
	// nothing while other members do. A write that a former leader may have lost waits for an
	// eighth of it, once its member serves under the next leader. The write then ends with a
	// *retry.UnknownOutcomeError. A shorter timeout returns sooner but makes more outcomes
	// unknown: a short disk stall ends with all writes answered. The default is 2 s. With a
	// negative value only the deadline ends such a write. A write on a dead member ends an
	// eighth of it after the verdict, at once with a negative value; one on a member that
	// reports no leader while others have one, at once.
	WriteStallTimeout time.Duration `json:"write-stall-timeout"`

	// Observer, if set, receives the client's events: endpoints used, ejected and
	// readmitted; work retried, moved or lost. Its methods run on the path of calls
	// and must return at once; see package observe, and docs/observing.md for
	// metrics. nil, the default, costs nothing.
	Observer observe.Observer `json:"-"`

	// Slog, if set, is the client's logger: one line when an outage starts and one when it
	// ends, and at level Debug every failed attempt. Lines contain no values, tokens or
	// passwords. New rejects Slog together with Logger.
	Slog *slog.Logger `json:"-"`

	// AllowInsecureSync lets [Client.Sync] and auto-sync use http URLs that members
	// advertise, in a client that has TLS set or an endpoint that uses TLS. By
	// default such a client skips these URLs and logs a warning: an attacker who
	// controls the membership or the network could read and forge the client's
	// traffic there. The client never sends tokens or passwords in plaintext, so New
	// rejects AllowInsecureSync together with Username, Token or TokenSource.
	// Endpoints in Config do not need it.
	AllowInsecureSync bool `json:"allow-insecure-sync"`

	// TokenSource returns a JWT, for tokens that rotate. It replaces Token, Username
	// and Password. New calls it, within DialTimeout; after that the client calls it
	// when the server has refused the last token, and it must return a new one. Calls
	// of it never overlap, and one result serves all calls that wait for it. Its
	// context ends when no call waits any more; it must return then. Its error,
	// wrapped, fails these calls; watches and leases call it again after a pause. It
	// must not use the client.
	TokenSource func(ctx context.Context) (string, error) `json:"-"`

	// WaitReady makes New wait until the cluster serves the client, by a linearizable read, for
	// DialTimeout or 15 s. If it does not, New fails with a *[NotReadyError], which has the reason for
	// each endpoint, such as a certificate that is not trusted, and wraps context.DeadlineExceeded, or the
	// error with which a server refuses the read, at once.
	WaitReady bool `json:"wait-ready"`

	// ca is the file from which NewClientConfig read TLS.RootCAs.
	ca *caFile
}

// validate checks the configuration without side effects. Its errors name the
// field.
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

// errTokenSources is returned by New for a Config with a TokenSource and other
// credentials.
var errTokenSources = fmt.Errorf("TokenSource is set beside Token, Username or Password: %w", ErrMutuallyExclusiveCfg)

// errInsecureSync is returned by New for a Config with AllowInsecureSync and
// credentials: the client sends no credentials to the plaintext endpoints that
// AllowInsecureSync admits.
var errInsecureSync = errors.New("AllowInsecureSync is set beside Username, Token or TokenSource: " +
	"a client with TLS sends no token in plaintext, so calls to these endpoints would fail")

// authenticates reports whether calls carry a token.
func (cfg *Config) authenticates() bool {
	return cfg.Username != "" || cfg.Token != "" || cfg.TokenSource != nil
}

// retryConfig merges the service config with the official client's retry fields.
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
		Time:                cmp.Or(cfg.DialKeepAliveTime, defaultKeepAliveTime),
		Timeout:             cfg.DialKeepAliveTimeout,
		PermitWithoutStream: cfg.PermitWithoutStream && cfg.DialKeepAliveTime > 0,
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

// callOptions returns the options of every call of the API. They are set on calls
// and not on the connection: a user's own connections ([Client.Dial]) keep gRPC's
// defaults.
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

// ConfigSpec is a client configuration from flags, the environment or a file. It
// can be written to JSON and read back. [NewClientConfig] converts it to a Config.
type ConfigSpec struct {
	Endpoints          []string      `json:"endpoints"`
	RequestTimeout     time.Duration `json:"request-timeout"`
	DialTimeout        time.Duration `json:"dial-timeout"`
	KeepAliveTime      time.Duration `json:"keepalive-time"`
	KeepAliveTimeout   time.Duration `json:"keepalive-timeout"`
	MaxCallSendMsgSize int           `json:"max-request-bytes"`
	MaxCallRecvMsgSize int           `json:"max-recv-bytes"`
	Secure             *SecureConfig `json:"secure"`
	Auth               *AuthConfig   `json:"auth"`
}

// SecureConfig is the TLS part of a ConfigSpec. Cert, Key and Cacert are paths of
// PEM files; the client picks up changed files without a restart.
type SecureConfig struct {
	Cert       string `json:"cert"`
	Key        string `json:"key"`
	Cacert     string `json:"cacert"`
	ServerName string `json:"server-name"` // no effect, see Config.TLS

	// InsecureTransport selects plaintext if no file is given.
	InsecureTransport bool `json:"insecure-transport"`
	// InsecureSkipVerify accepts any certificate of the server.
	InsecureSkipVerify bool `json:"insecure-skip-tls-verify"`
}

// AuthConfig holds the client's credentials: a user name and a password, or a
// token.
type AuthConfig struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Token    string `json:"token"`
}

// Clone returns a deep copy; nil stays nil.
func (cs *ConfigSpec) Clone() *ConfigSpec {
	if cs == nil {
		return nil
	}
	clone := *cs
	clone.Endpoints = slices.Clone(cs.Endpoints)
	if cs.Secure != nil {
		secure := *cs.Secure
		clone.Secure = &secure
	}
	if cs.Auth != nil {
		auth := *cs.Auth
		clone.Auth = &auth
	}
	return &clone
}

// Empty reports whether nothing is set.
func (cfg AuthConfig) Empty() bool { return cfg == AuthConfig{} }

// NewClientConfig makes a Config of a specification. It reads the certificate, key
// and CA files, and fails if it cannot, or if the CA file holds no certificate.
// RequestTimeout has no counterpart in Config: the program applies it to its requests.
// lg, which may be nil, logs certificate reloads.
func NewClientConfig(confSpec *ConfigSpec, lg *zap.Logger) (*Config, error) {
	cfg := &Config{
		Endpoints:            confSpec.Endpoints,
		DialTimeout:          confSpec.DialTimeout,
		DialKeepAliveTime:    confSpec.KeepAliveTime,
		DialKeepAliveTimeout: confSpec.KeepAliveTimeout,
		MaxCallSendMsgSize:   confSpec.MaxCallSendMsgSize,
		MaxCallRecvMsgSize:   confSpec.MaxCallRecvMsgSize,
	}
	if auth := confSpec.Auth; auth != nil {
		cfg.Username, cfg.Password, cfg.Token = auth.Username, auth.Password, auth.Token
	}
	if err := cfg.SetSecure(confSpec.Secure, lg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// SetSecure sets TLS, to nil for plaintext, as [NewClientConfig] does: by the files of secure, which are read again when they
// change. A nil secure is plaintext. It fails if a file cannot be read, or the CA file holds no certificate; then TLS stays as it
// was. lg, which may be nil, logs certificate reloads.
func (cfg *Config) SetSecure(secure *SecureConfig, lg *zap.Logger) error {
	secure = cmp.Or(secure, &SecureConfig{InsecureTransport: true})
	ca := newCAFile(secure.Cacert)
	config, err := secure.tlsConfig(lg)
	if err != nil {
		return err
	}
	switch {
	case secure.Cacert == "":
		ca = nil
	case config.RootCAs.Equal(x509.NewCertPool()):
		return fmt.Errorf("%s holds no certificate in PEM", ca.path)
	default:
		ca.loaded(config.RootCAs)
	}
	cfg.TLS, cfg.ca = config, ca
	return nil
}

// tlsConfig returns nil for plaintext.
func (sc *SecureConfig) tlsConfig(lg *zap.Logger) (*tls.Config, error) {
	config := new(tls.Config)
	switch {
	case sc.Cert != "" || sc.Key != "" || sc.Cacert != "" || sc.ServerName != "":
		info := transport.TLSInfo{
			CertFile:      sc.Cert,
			KeyFile:       sc.Key,
			TrustedCAFile: sc.Cacert,
			ServerName:    sc.ServerName,
			Logger:        lg,
		}
		var err error
		if config, err = info.ClientConfig(); err != nil {
			return nil, err
		}
	case sc.InsecureTransport && !sc.InsecureSkipVerify:
		return nil, nil
	}
	config.InsecureSkipVerify = sc.InsecureSkipVerify
	return config, nil
}

// caFile reloads a file of certificate authorities when it changes. A long-lived
// client must trust the successor of the CA that it was started with.
type caFile struct {
	path  string
	first *x509.CertPool // the initial TLS.RootCAs

	mu      sync.Mutex
	pool    *x509.CertPool
	read    fileVersion // of pool
	refused fileVersion // the last one that had no authorities; read if there is none since
}

// fileVersion is the zero value for a file that cannot be read.
type fileVersion struct {
	modTime time.Time
	size    int64
}

func versionOf(path string) (fileVersion, error) {
	st, err := os.Stat(path)
	if err != nil {
		return fileVersion{}, err
	}
	return fileVersion{st.ModTime(), st.Size()}, nil
}

// newCAFile is called before the file is first read, so that a change between
// the two is not missed.
func newCAFile(path string) *caFile {
	f := &caFile{path: path}
	f.read, _ = versionOf(path) // tlsConfig, which reads the file, returns the error
	f.refused = f.read
	return f
}

// loaded records the pool that was read from the file.
func (f *caFile) loaded(pool *x509.CertPool) { f.first, f.pool = pool, pool }

// roots returns the authorities in the file, which is read when it has changed. If
// the file is missing or invalid, for example half-written, the last good
// authorities stay in force, with one warning a change.
func (f *caFile) roots(lg *zap.Logger) *x509.CertPool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := versionOf(f.path)
	if err == nil && now == f.read {
		f.refused = f.read
		return f.pool
	}
	var pem []byte
	if err == nil {
		pem, err = os.ReadFile(f.path)
	}
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = errNoCertificate
	}
	if err == nil {
		f.pool, f.read, f.refused = pool, now, now
		return pool
	}
	if now != f.refused {
		f.refused = now
		lg.Warn("the file of certificate authorities cannot be used: the last good ones stay in force",
			zap.String("file", f.path), zap.Error(err))
	}
	return f.pool
}

// errNoCertificate is the error for a file that can be read and has no authorities.
var errNoCertificate = errors.New("it holds no certificate in PEM")

// roots returns the function that supplies the roots of each handshake, or nil if
// the user has replaced TLS or its RootCAs since NewClientConfig.
func (cfg *Config) roots(lg func() *zap.Logger) func() *x509.CertPool {
	if cfg.ca == nil || cfg.TLS == nil || cfg.TLS.RootCAs != cfg.ca.first {
		return nil
	}
	return func() *x509.CertPool { return cfg.ca.roots(lg()) }
}
