package clientv3

import (
	"crypto/x509"
	"os"
	"sync"
	"time"
)

// caFile follows a file of certificate authorities. A client that runs for
// months meets the successor of the CA that it was started with.
type caFile struct {
	path  string
	first *x509.CertPool // what TLS.RootCAs was made with

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

// loaded notes what was read from the file.
func (f *caFile) loaded(pool *x509.CertPool) { f.first, f.pool = pool, pool }

// roots returns the authorities in the file, which is read when it has changed.
// A file that is missing or unusable, perhaps because it is being written right
// now, leaves the last good authorities in force.
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

// roots returns what to trust at each handshake, or nil to leave that to TLS:
// the user may have replaced TLS, or its RootCAs, since NewClientConfig.
func (cfg *Config) roots() func() *x509.CertPool {
	if cfg.ca == nil || cfg.TLS == nil || cfg.TLS.RootCAs != cfg.ca.first {
		return nil
	}
	return cfg.ca.roots
}
