package clientv3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/testpki"
)

func noTokens(context.Context) (string, error) { return "", nil }

func TestConfigErrorsNameTheField(t *testing.T) {
	ok := Config{Endpoints: []string{"127.0.0.1:2379"}}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no endpoints":        {func(c *Config) { c.Endpoints = nil }, "no available endpoints"},
		"bad endpoint":        {func(c *Config) { c.Endpoints = []string{"ftp://x"} }, "ftp://x"},
		"token and user":      {func(c *Config) { c.Token, c.Username = "t", "u" }, "mutually exclusive"},
		"source and token":    {func(c *Config) { c.TokenSource, c.Token = noTokens, "t" }, "TokenSource"},
		"source and user":     {func(c *Config) { c.TokenSource, c.Username = noTokens, "u" }, "TokenSource"},
		"source and password": {func(c *Config) { c.TokenSource, c.Password = noTokens, "p" }, "TokenSource"},
		"two loggers":         {func(c *Config) { c.Logger, c.Slog = zap.NewNop(), slog.Default() }, "both Logger and Slog are set"},
		"auto-sync":           {func(c *Config) { c.AutoSyncInterval = -1 }, "AutoSyncInterval"},
		"dial timeout":        {func(c *Config) { c.DialTimeout = -1 }, "DialTimeout"},
		"backoff":             {func(c *Config) { c.BackoffWaitBetween = -1 }, "BackoffWaitBetween"},
		"jitter":              {func(c *Config) { c.BackoffJitterFraction = 1.1 }, "BackoffJitterFraction"},
		"send size":           {func(c *Config) { c.MaxCallSendMsgSize = -1 }, "MaxCallSendMsgSize"},
		"receive size":        {func(c *Config) { c.MaxCallRecvMsgSize = -1 }, "MaxCallRecvMsgSize"},
		"receive below send":  {func(c *Config) { c.MaxCallSendMsgSize, c.MaxCallRecvMsgSize = 2, 1 }, "gRPC message recv limit"},
		"service config":      {func(c *Config) { c.ServiceConfig = "{" }, "ServiceConfig"},
		"throttling":          {func(c *Config) { c.ServiceConfig = `{"retryThrottling":{"maxTokens":0}}` }, "maxTokens"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ok
			tc.change(&cfg)
			_, err := New(cfg)
			assert.ErrorContains(t, err, tc.want)
		})
	}
	c, err := New(ok)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestFieldsOverrideTheServiceConfig(t *testing.T) {
	cfg := Config{
		MaxUnaryRetries:       7,
		BackoffWaitBetween:    3 * time.Second,
		BackoffJitterFraction: 0.5,
		ServiceConfig: `{"methodConfig":[{"name":[{"service":"etcdserverpb.KV"}],
			"retryPolicy":{"maxAttempts":3,"backoffMultiplier":4,"maxBackoff":"2s"}}]}`,
	}
	rc, err := cfg.retryConfig()
	require.NoError(t, err)
	for _, method := range []string{pb.KV_Range_FullMethodName, pb.Cluster_MemberList_FullMethodName} {
		p := rc.PolicyFor(method)
		assert.Equal(t, 7, p.MaxAttempts)
		assert.Equal(t, 3*time.Second, p.InitialBackoff)
		assert.Equal(t, 3*time.Second, p.MaxBackoff)
		assert.InDelta(t, 0.5, p.Jitter, 0)
	}
	assert.InDelta(t, 4.0, rc.PolicyFor(pb.KV_Range_FullMethodName).BackoffMultiplier, 0)

	cfg = Config{MaxUnaryRetries: math.MaxUint}
	rc, err = cfg.retryConfig()
	require.NoError(t, err)
	assert.Positive(t, rc.Default.MaxAttempts)
}

func TestKeepAliveDefaults(t *testing.T) {
	assert.Equal(t, defaultKeepAliveTime, (&Config{}).keepAlive().Time)
	assert.Equal(t, defaultKeepAliveTimeout, (&Config{}).keepAlive().Timeout)
	assert.Negative(t, (&Config{DialKeepAliveTime: -1}).keepAlive().Time)
	assert.Equal(t, time.Minute, (&Config{DialKeepAliveTime: time.Minute}).keepAlive().Time)
}

func TestCallOptionsFollowTheConfig(t *testing.T) {
	want := []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(1000), grpc.MaxCallRecvMsgSize(2000)}
	assert.Equal(t, want, (&Config{MaxCallSendMsgSize: 1000, MaxCallRecvMsgSize: 2000}).callOptions())
	want = []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32)}
	assert.Equal(t, want, (&Config{}).callOptions())
}

func TestRootsFollowTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	first, second := testpki.New(t, "first").PEM(), testpki.New(t, "second").PEM()
	write(t, path, first)
	cfg, err := NewClientConfig(&ConfigSpec{Secure: &SecureConfig{Cacert: path}}, nil)
	require.NoError(t, err)
	core, logs := observer.New(zap.WarnLevel)
	lg := zap.New(core)
	logger := func() *zap.Logger { return lg }
	roots := cfg.roots(logger)
	require.NotNil(t, roots)
	assert.True(t, roots().Equal(poolOf(t, first)))

	write(t, path, second)
	assert.True(t, roots().Equal(poolOf(t, second)))

	t.Run("what cannot be used leaves the last good one", func(t *testing.T) {
		warned := func(want string) {
			t.Helper()
			for range 3 { // handshakes
				assert.True(t, roots().Equal(poolOf(t, second)))
			}
			lines := logs.TakeAll()
			require.Len(t, lines, 1, "one a change")
			assert.Equal(t, path, lines[0].ContextMap()["file"])
			assert.Contains(t, lines[0].ContextMap()["error"], want)
		}
		assert.Empty(t, logs.All())
		write(t, path, []byte("half a certif"))
		warned("no certificate")
		write(t, path, []byte("half a certificate"))
		warned("no certificate")
		require.NoError(t, os.Remove(path))
		warned("no such file")
		write(t, path, first)
		assert.True(t, roots().Equal(poolOf(t, first)))
		assert.Empty(t, logs.All())
	})
	t.Run("what the user replaced is left alone", func(t *testing.T) {
		cfg.TLS.RootCAs = x509.NewCertPool()
		assert.Nil(t, cfg.roots(logger))
		cfg.TLS = &tls.Config{}
		assert.Nil(t, cfg.roots(logger))
		cfg.TLS = nil
		assert.Nil(t, cfg.roots(logger))
	})
	assert.Nil(t, (&Config{TLS: &tls.Config{}}).roots(logger))
}

// SetSecure that fails leaves TLS as it was.
func TestSetSecureFails(t *testing.T) {
	cfg := Config{TLS: new(tls.Config)}
	before := cfg.TLS
	require.Error(t, cfg.SetSecure(&SecureConfig{Cacert: filepath.Join(t.TempDir(), "missing.pem")}, nil))
	require.Same(t, before, cfg.TLS)
	require.NoError(t, cfg.SetSecure(nil, nil))
	require.Nil(t, cfg.TLS)
}

func TestFileWithoutAuthorities(t *testing.T) {
	for _, content := range []string{"", "# certificates", "-----BEGIN CERTIFICATE-----"} {
		path := filepath.Join(t.TempDir(), "ca.pem")
		write(t, path, []byte(content))
		_, err := NewClientConfig(&ConfigSpec{Secure: &SecureConfig{Cacert: path}}, nil)
		require.EqualError(t, err, path+" holds no certificate in PEM", "%q", content)
	}
}

// write also moves the modification time on, which a file system may record in
// steps that are longer than the test.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	modified := time.Now()
	if st, err := os.Stat(path); err == nil {
		modified = st.ModTime().Add(time.Second)
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.Chtimes(path, modified, modified))
}

func poolOf(t *testing.T, pemBytes []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pemBytes))
	return pool
}
