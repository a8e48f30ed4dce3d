package clientv3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
)

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
	if confSpec.Secure == nil {
		return cfg, nil
	}
	if err := cfg.SetSecure(confSpec.Secure, lg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// SetSecure sets TLS, to nil for plaintext, as [NewClientConfig] does: by the files of secure, which are read again when they
// change. It fails if a file cannot be read, or the CA file holds no certificate. lg, which may be nil, logs certificate
// reloads.
func (cfg *Config) SetSecure(secure *SecureConfig, lg *zap.Logger) (err error) {
	cfg.ca = nil
	if secure.Cacert != "" {
		cfg.ca = newCAFile(secure.Cacert)
	}
	if cfg.TLS, err = secure.tlsConfig(lg); err != nil {
		return err
	}
	if cfg.ca != nil {
		if cfg.TLS.RootCAs.Equal(x509.NewCertPool()) {
			return fmt.Errorf("%s holds no certificate in PEM", cfg.ca.path)
		}
		cfg.ca.loaded(cfg.TLS.RootCAs)
	}
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
