// Package kube runs the control plane of Kubernetes on this machine: a real
// kube-apiserver over a real etcd, and nothing else. No controller, scheduler or
// kubelet interferes: what is posted stays as it was posted.
//
// [Start] starts both as child processes. They listen on loopback only, and clients
// reach the API server through a [link.Link] at an address that stays the same for
// the life of the control plane, so that it can be killed, frozen and restarted, and
// its network cut, while clients keep their configuration.
//
// The API server is an executable, which `make kube-apiserver` builds, and which
// [BinaryEnv] or [Config].Binary names. The etcd is the one built into package lab,
// unless [Config].Etcd names another, so that a program, or the TestMain of a
// package, calls [lab.Main] before anything else.
//
//	func TestMain(m *testing.M) {
//		lab.Main()
//		goleak.VerifyTestMain(m)
//	}
//
// [ControlPlane.Close] leaves nothing behind. When the program crashes instead, the
// kernel kills both processes on Linux; elsewhere the API server survives.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/quorate/quorate/internal/port"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/child"
	"github.com/quorate/quorate/lab/link"
)

// BinaryEnv is the environment variable with the path of the kube-apiserver that
// Config.Binary defaults to.
const BinaryEnv = "QUORATE_KUBE_APISERVER"

// startTimeout bounds starting, when the caller's context does not. Three seconds
// are usual for the first start and two for others; the machine may be busy.
const startTimeout = 5 * time.Minute

// Errors of a control plane's methods.
var (
	// ErrRunning is returned by Restart while the API server's process exists: Kill
	// ends it.
	ErrRunning = errors.New("kube-apiserver is running")
	// ErrNotRunning is returned by Stop and Continue for a process that is gone:
	// Restart starts it.
	ErrNotRunning = errors.New("kube-apiserver is not running")
	// ErrClosed is returned by Restart after Close.
	ErrClosed = errors.New("control plane is closed")
)

// Config describes a control plane. Its zero value runs the executable that
// BinaryEnv names.
type Config struct {
	// Binary is the path of a kube-apiserver executable. Default: what BinaryEnv
	// holds. With neither, Start returns an error that says how to build one.
	Binary string
	// Args are further flags of kube-apiserver, such as "--min-request-timeout=3".
	// The flags that make the control plane what it is (addresses, certificates,
	// tokens, etcd) are refused.
	Args []string
	// Etcd is the server that the API server stores in: one etcd of package lab, by
	// default the one built in.
	Etcd lab.Config
	// Dir is the directory in which the control plane makes its data directory.
	// Default os.TempDir().
	Dir string
}

// reserved are the flags of kube-apiserver that only this package may set.
var reserved = []string{
	"etcd-servers", "etcd-prefix", "bind-address", "secure-port", "cert-dir",
	"tls-cert-file", "tls-private-key-file", "service-account-issuer", "service-account-key-file",
	"service-account-signing-key-file", "token-auth-file", "authorization-mode",
}

// complete returns the configuration with defaults in place of zero values, or an
// error that names every field that is wrong.
func (c Config) complete() (Config, error) {
	c.Binary = cmp.Or(c.Binary, os.Getenv(BinaryEnv))
	var wrong []error
	if c.Binary == "" {
		wrong = append(wrong, fmt.Errorf(
			"kube: Config.Binary and %s are empty: build a kube-apiserver with `make kube-apiserver` and name its path", BinaryEnv))
	} else if path, err := findBinary(c.Binary); err != nil {
		wrong = append(wrong, fmt.Errorf("kube: Config.Binary: %w: `make kube-apiserver` builds one", err))
	} else {
		c.Binary = path
	}
	return c, errors.Join(append(wrong, checkArgs("Config.Args", c.Args))...)
}

// findBinary returns the absolute path of an executable: the API server does not run
// in the working directory of this program.
func findBinary(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// checkArgs returns an error for every reserved flag in args.
func checkArgs(source string, args []string) error {
	var wrong []error
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if slices.Contains(reserved, name) {
			wrong = append(wrong, fmt.Errorf("kube: %s holds %s, which this package sets itself", source, arg))
		}
	}
	return errors.Join(wrong...)
}

// ControlPlane is a running control plane. Its methods may be called from several
// goroutines.
type ControlPlane struct {
	cfg     Config
	etcd    *lab.Cluster
	spawner *child.Spawner
	files   files
	port    *port.Port // where the API server listens
	link    *link.Link // from clients to it
	http    *http.Transport
	admin   dynamic.Interface

	starting sync.Mutex // held while the process is being started, and by Close

	mu      sync.Mutex
	process *process // the last run, nil before the first
	closed  bool
}

// Start starts a control plane and returns when the API server is ready. It gives up
// when ctx ends, or after two minutes; whatever it had started is gone then, and the
// error holds the last lines of the API server's log. The control plane must be
// closed.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &ControlPlane{cfg: cfg, spawner: child.NewSpawner()}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	var err error
	etcd := c.cfg.Etcd
	etcd.Members = cmp.Or(etcd.Members, 1)
	etcd.Dir = cmp.Or(etcd.Dir, c.cfg.Dir)
	if c.etcd, err = lab.Start(ctx, etcd); err != nil {
		return fmt.Errorf("kube: etcd: %w", err)
	}
	if c.files, err = newFiles(c.etcd.Dir()); err != nil {
		return err
	}
	if c.port, err = port.Reserve(); err != nil {
		return fmt.Errorf("kube: %w", err)
	}
	if c.link, err = link.Listen(""); err != nil {
		return fmt.Errorf("kube: %w", err)
	}
	if err := c.Restart(ctx); err != nil {
		return err
	}
	c.admin, c.http, err = c.newAdmin()
	return err
}

// Close kills the API server and etcd and returns when their processes, files and
// ports are gone. Closing again does nothing.
func (c *ControlPlane) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	killed := c.Kill()
	c.starting.Lock() // a start under way has noticed the end when this is free
	defer c.starting.Unlock()
	if !first {
		return nil
	}
	errs := []error{killed}
	c.spawner.Close()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	if c.link != nil {
		errs = append(errs, c.link.Close())
	}
	if c.port != nil {
		errs = append(errs, c.port.Release())
	}
	if c.etcd != nil {
		errs = append(errs, c.etcd.Close())
	}
	return errors.Join(errs...)
}

// Etcd returns what the API server stores in, for faults. It belongs to the control
// plane: do not close it.
func (c *ControlPlane) Etcd() *lab.Cluster { return c.etcd }

// URL returns the URL of the API server, which stays the same when it restarts.
func (c *ControlPlane) URL() string { return "https://" + c.link.Addr() }

// Link returns the link between clients and the API server, for faults of the
// network. The methods of the control plane do not go through it.
func (c *ControlPlane) Link() *link.Link { return c.link }
