package clientv3

import (
	"crypto/x509"
	"os"
	"sync"
	"time"
)

// caFile reloads a file of certificate authorities when it changes. A long-lived
// client must trust the successor of the CA that it was started with.
type caFile struct {
	path  string
	first *x509.CertPool // the initial TLS.RootCAs

	mu      sync.Mutex
	pool    *x509.CertPool
	modTime time.Time
	size    int64
}

// newCAFile is called before the file is first read, so that a change between
// the two is not missed.
func newCAFile(path string) *caFile {
	f := &caFile{path: path}
	if st, err := os.Stat(path); err == nil {
		f.modTime, f.size = st.ModTime(), st.Size()
	}
	return f
}

// loaded records the pool that was read from the file.
func (f *caFile) loaded(pool *x509.CertPool) { f.first, f.pool = pool, pool }

// roots returns the authorities in the file, which is read when it has changed. If
// the file is missing or invalid, for example half-written, the last good
// authorities stay in force.
func (f *caFile) roots() *x509.CertPool {
	f.mu.Lock()
	defer f.mu.Unlock()
	st, err := os.Stat(f.path)
	if err != nil || (st.ModTime().Equal(f.modTime) && st.Size() == f.size) {
		return f.pool
	}
	pem, err := os.ReadFile(f.path)
	if err != nil {
		return f.pool
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return f.pool
	}
	f.pool, f.modTime, f.size = pool, st.ModTime(), st.Size()
	return pool
}

// roots returns the function that supplies the roots of each handshake, or nil if
// the user has replaced TLS or its RootCAs since NewClientConfig.
func (cfg *Config) roots() func() *x509.CertPool {
	if cfg.ca == nil || cfg.TLS == nil || cfg.TLS.RootCAs != cfg.ca.first {
		return nil
	}
	return cfg.ca.roots
}
