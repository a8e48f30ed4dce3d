package clientv3

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/internal/testpki"
)

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
