package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/servers/site"
)

// Running is a server that runs. Its methods may be called from several goroutines.
type Running struct {
	server  *lab.Cluster     // what clients use
	store   *lab.Cluster     // what holds the data: the server itself, or the member behind a proxy
	control *httptest.Server // at which behaviours ask for acts
	dir     string

	mu sync.Mutex // held while the server is acted upon
}

// Start starts a server with a setup that it offers. It must be closed.
func (s Server) Start(ctx context.Context, path string, setup site.Setup) (*Running, error) {
	dir, err := os.MkdirTemp("", "quorate-server-")
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	r := &Running{dir: dir}
	r.control = httptest.NewServer(http.HandlerFunc(r.serveAct))
	if err := fatal.Catch(func() { r.start(ctx, s, path, setup) }); err != nil {
		return nil, errors.Join(fmt.Errorf("servers: start %s: %w", s.Name, err), r.Close())
	}
	return r, nil
}

// start ends with the first error, see package fatal.
func (r *Running) start(ctx context.Context, s Server, path string, setup site.Setup) {
	cfg := s.Config(path)
	switch setup {
	case site.Tokens:
		secret := filepath.Join(r.dir, "token.key")
		fatal.If(os.WriteFile(secret, []byte(rand.Text()), 0o600))
		cfg.Args = append(cfg.Args, fmt.Sprintf("--auth-token=jwt,priv-key=%s,sign-method=HS256,ttl=2s", secret))
	case site.TLS:
		// A proxy speaks to its member in plaintext: it refuses a client certificate that names a user.
		cfg.TLS, cfg.ClientCertAuth = s.kind != grpcProxy, s.kind == member
	case site.Secured:
		cfg.TLS = true
	case site.None, site.Plain, site.Own, site.Auth, site.Single:
	}
	r.store = fatal.OK(lab.Start(ctx, cfg))
	if s.kind != kine && (setup == site.Single || setup == site.Secured) {
		fatal.If(Settle(ctx, r.store))
	}
	r.server = r.store
	if s.kind == grpcProxy {
		r.server = fatal.OK(lab.StartProxy(ctx, r.store, setup == site.TLS))
	}
}

// Config returns the configuration of the server, plain, or of the member behind a proxy. Path is that of its executable.
func (s Server) Config(path string) lab.Config {
	if s.kind == kine {
		return lab.Config{Binary: path, Command: kineFlags}
	}
	cfg := lab.Config{Members: 1, Binary: path, Args: []string{"--bcrypt-cost=4"}} // the lowest
	if s.progress != "" {
		cfg.Args = append(cfg.Args, s.progress+"=500ms")
	}
	return cfg
}

func kineFlags(l lab.Launch) []string {
	flags := []string{
		"--endpoint=sqlite://" + filepath.Join(l.Dir, "state.db") + "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		"--listen-address=tcp://" + l.Address,
		"--metrics-bind-address=0",
		progress + "=500ms",
	}
	if l.TLS.CA != "" {
		flags = append(flags, "--server-cert-file="+l.TLS.ServerCert, "--server-key-file="+l.TLS.ServerKey, "--trusted-ca-file="+l.TLS.CA)
	}
	return flags
}

// Site returns the description for a behaviour.
func (r *Running) Site() site.Site {
	files := r.server.TLSFiles()
	return site.Site{
		Endpoints: r.server.Endpoints(), Direct: r.server.Members()[0].DirectEndpoint(),
		Files:   site.Files{CA: files.CA, ClientCert: files.ClientCert, ClientKey: files.ClientKey},
		Control: r.control.URL,
	}
}

// serveAct does what a behaviour asks for.
func (r *Running) serveAct(w http.ResponseWriter, req *http.Request) {
	act := site.Act(strings.TrimPrefix(req.URL.Path, "/"))
	if err := r.Do(req.Context(), act); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// Do acts on the server.
func (r *Running) Do(ctx context.Context, act site.Act) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.server.Members()[0]
	switch act {
	case site.Kill:
		return m.Kill()
	case site.Restart:
		return m.Restart(ctx)
	case site.Stop:
		return m.Freeze()
	case site.Continue:
		return m.Continue()
	case site.Cut:
		r.server.ClientLink(m).Cut()
		return nil
	case site.Heal:
		r.server.Heal()
		return nil
	case site.Backup:
		return r.exchange(ctx, r.data(), r.backup())
	case site.Restore:
		return r.exchange(ctx, r.backup(), r.data())
	default:
		return fmt.Errorf("servers: unknown act %q", act)
	}
}

// Settle waits until the members of etcd have raised their storage version, which they do in their first seconds. Status and
// snapshots contain it since etcd 3.6.
func Settle(ctx context.Context, c *lab.Cluster) error {
	for _, m := range c.Members() {
		for {
			status, err := m.Status(ctx)
			if err != nil {
				return err
			}
			minor := status.GetVersion()[:len("3.x")]
			if minor < "3.6" || strings.HasPrefix(status.GetStorageVersion(), minor) {
				break
			}
			if pause.For(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("servers: etcd %s still has storage version %q", status.GetVersion(), status.GetStorageVersion())
			}
		}
	}
	return nil
}

func (r *Running) data() string   { return filepath.Join(r.store.Dir(), r.store.Members()[0].Name()) }
func (r *Running) backup() string { return filepath.Join(r.dir, "backup") }

// exchange copies data while the server is stopped.
func (r *Running) exchange(ctx context.Context, from, to string) error {
	m := r.store.Members()[0]
	return errors.Join(m.Kill(), os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)), m.Restart(ctx))
}

// Close ends the server and removes its files.
func (r *Running) Close() error {
	r.control.Close()
	var errs []error
	for _, c := range []*lab.Cluster{r.server, r.store} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}
