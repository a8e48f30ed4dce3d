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
// unless [Config].Etcd names another: a program, or the TestMain of a package, calls
// [lab.Main] before anything else.
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
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

// BinaryEnv is the environment variable with the path of the kube-apiserver that
// Config.Binary defaults to.
const BinaryEnv = "QUORATE_KUBE_APISERVER"

// startTimeout bounds starting, when the caller's context does not. Three seconds
// are usual for the first start and two for others; the machine may be busy.
const startTimeout = 5 * time.Minute

// Config describes a control plane. Its zero value runs the executable that
// BinaryEnv names.
type Config struct {
	// Binary is the path of a kube-apiserver executable. Default: what BinaryEnv
	// holds. With neither, Start returns an error that says how to build one.
	Binary string
	// Etcd is the etcd server of the API server: one of package lab, by default the
	// one built in.
	Etcd lab.Config
	// Dir is the directory in which the control plane makes its data directories.
	// Default os.TempDir().
	Dir string
}

// ControlPlane is a running control plane. Its methods may be called from several
// goroutines.
type ControlPlane struct {
	etcd   *lab.Cluster
	server *lab.Cluster // the API server
	files  files
}

// Start starts a control plane and returns when the API server is ready. It gives up
// when ctx ends, or after five minutes; whatever it had started is gone then, and the
// error holds the last lines of the API server's log. The control plane must be
// closed.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	cfg.Binary = cmp.Or(cfg.Binary, os.Getenv(BinaryEnv))
	if _, err := exec.LookPath(cfg.Binary); err != nil {
		return nil, fmt.Errorf("kube: Config.Binary or %s: %w: build a kube-apiserver with `make kube-apiserver` and name its path", BinaryEnv, err)
	}
	c := &ControlPlane{}
	if err := fatal.Catch(func() { c.start(ctx, cfg) }); err != nil {
		return nil, errors.Join(fmt.Errorf("kube: %w", err), c.Close())
	}
	return c, nil
}

// start ends with the first error, see package fatal.
func (c *ControlPlane) start(ctx context.Context, cfg Config) {
	etcd := cfg.Etcd
	etcd.Members, etcd.Dir = cmp.Or(etcd.Members, 1), cmp.Or(etcd.Dir, cfg.Dir)
	var err error
	c.etcd, err = lab.Start(ctx, etcd)
	fatal.If(err, "etcd")
	c.files = newFiles(c.etcd.Dir())
	c.server, err = lab.Start(ctx, lab.Config{
		Binary: cfg.Binary, Dir: cfg.Dir, Command: c.flags, Ready: c.checkReady, StartTimeout: startTimeout,
	})
	fatal.If(err, "API server")
}

// Close kills the API server and etcd and returns when their processes, files and
// ports are gone. Closing again does nothing.
func (c *ControlPlane) Close() error {
	var errs []error
	for _, cluster := range []*lab.Cluster{c.server, c.etcd} {
		if cluster != nil {
			errs = append(errs, cluster.Close())
		}
	}
	return errors.Join(errs...)
}

// Etcd returns the etcd cluster of the API server, for faults. It belongs to the
// control plane: do not close it.
func (c *ControlPlane) Etcd() *lab.Cluster { return c.etcd }

// Server returns the API server, as the member of a cluster of its own, to be killed, frozen and restarted. It is ready when
// Restart returns. It belongs to the control plane.
func (c *ControlPlane) Server() *lab.Member { return c.server.Members()[0] }

// URL returns the URL of the API server, which stays the same when it restarts.
func (c *ControlPlane) URL() string { return "https://" + c.Link().Addr() }

// Link returns the link between clients and the API server, for faults of the
// network. The methods of the control plane do not go through it.
func (c *ControlPlane) Link() *link.Link { return c.server.ClientLink(c.Server()) }

// keyBits is the size of the key that signs the tokens of service accounts: the
// least that is accepted everywhere, because each run makes a new key.
const keyBits = 2048

// files are what a kube-apiserver reads and writes.
type files struct {
	certs  string // directory of its self-signed certificate
	key    string // signs the tokens of service accounts
	tokens string // static tokens
	admin  string // the administrator's token, itself
}

// newFiles makes a key and a token for the administrator in a new directory of
// parent.
func newFiles(parent string) files {
	dir := fatal.OK(os.MkdirTemp(parent, "kube-apiserver-"))
	f := files{
		certs:  filepath.Join(dir, "certs"),
		key:    filepath.Join(dir, "service-account.key"),
		tokens: filepath.Join(dir, "tokens.csv"),
		admin:  rand.Text(),
	}
	key := fatal.OK(rsa.GenerateKey(rand.Reader, keyBits))
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	admin := f.admin + `,admin,admin,"system:masters"` + "\n" // token, user, uid, groups
	fatal.If(os.WriteFile(f.key, text, 0o600))
	fatal.If(os.WriteFile(f.tokens, []byte(admin), 0o600))
	return f
}

// certificate is the file with the certificate that kube-apiserver signs for itself
// when it first starts, and that its clients trust.
func (f files) certificate() string { return filepath.Join(f.certs, "apiserver.crt") }

// flags returns the command line of the API server.
func (c *ControlPlane) flags(l lab.Launch) []string {
	host, port, _ := net.SplitHostPort(l.Address) // an address has a port
	return []string{
		"--etcd-servers=" + strings.Join(c.etcd.Endpoints(), ","),
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + c.files.certs,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.files.key,
		"--service-account-signing-key-file=" + c.files.key,
		"--token-auth-file=" + c.files.tokens,
		"--authorization-mode=RBAC",
		// It would post the API server's own address, which is not needed here.
		"--endpoint-reconciler-type=none",
	}
}

// Admin returns the configuration of a client that may do everything. Each call
// returns a new one.
func (c *ControlPlane) Admin() *rest.Config { return c.ConfigFor(c.files.admin) }

// ConfigFor returns the configuration of a client with a bearer token.
func (c *ControlPlane) ConfigFor(token string) *rest.Config {
	return c.configFor(token, c.Link().Addr())
}

func (c *ControlPlane) configFor(token, address string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + address,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.certificate()},
		// The limits of client-go, 5 requests a second, are for programs that share
		// an API server.
		QPS: -1,
	}
}

// Direct returns the configuration of the administrator past the link, and a client whose connections end with their
// requests: those that client-go shares among all clients of a server cannot be closed. An error ends it, see package fatal.
func (c *ControlPlane) Direct() (*rest.Config, *http.Client) {
	return c.direct(strings.TrimPrefix(c.Server().DirectEndpoint(), "http://"))
}

func (c *ControlPlane) direct(address string) (*rest.Config, *http.Client) {
	config := c.configFor(c.files.admin, address)
	security, err := rest.TLSConfigFor(config)
	fatal.If(err, "certificate of the API server")
	authorized := fatal.OK(rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: security, DisableKeepAlives: true}))
	return config, &http.Client{Transport: authorized}
}

// checkReady asks the API server at an address whether it is ready.
func (c *ControlPlane) checkReady(ctx context.Context, address string) error {
	return fatal.Catch(func() {
		client := fatal.OK(core.NewForConfigAndClient(c.direct(address)))
		fatal.If(client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error())
	})
}
