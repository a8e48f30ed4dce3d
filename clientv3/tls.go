package clientv3

import (
	"crypto/x509"
	"errors"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

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
