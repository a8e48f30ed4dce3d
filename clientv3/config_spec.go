package clientv3

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
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
