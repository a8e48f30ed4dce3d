package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc/resolver"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/dns"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/kubernetes"
	"github.com/quorate/quorate/resolver/static"
)

// passwordVariable is the environment variable with the password for --user: an argument
// could be read by every user of the machine.
const passwordVariable = "QUORATE_PASSWORD"

// sourceFlags say where targets are looked up.
type sourceFlags struct {
	endpoints []string
	tls       transport.TLSInfo
	user      string

	kubeconfig  string
	kubeContext string
	namespace   string
	zone        string

	server   string
	interval time.Duration
}

func (f *sourceFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.endpoints, "endpoints", []string{"http://127.0.0.1:2379"}, "etcd: its endpoints")
	fs.StringVar(&f.tls.TrustedCAFile, "cacert", "", "etcd: `file` with its certificate authorities")
	fs.StringVar(&f.tls.CertFile, "cert", "", "etcd: `file` with our certificate")
	fs.StringVar(&f.tls.KeyFile, "key", "", "etcd: `file` with our key")
	fs.StringVar(&f.user, "user", "", "etcd: `name` of the user, with the password in "+passwordVariable)
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubernetes: `file` to use (default: in a pod its service account, else as kubectl does)")
	fs.StringVar(&f.kubeContext, "context", "", "kubernetes: `name` of the context in the kubeconfig")
	fs.StringVar(&f.namespace, "namespace", "", "kubernetes: `namespace` of targets that name none")
	fs.StringVar(&f.zone, "zone", "", "kubernetes: `zone` whose hints are followed (default: no hints are)")
	fs.StringVar(&f.server, "server", "", "dns: server to ask, as `host:port` (default: those of resolv.conf)")
	fs.DurationVar(&f.interval, "interval", dns.DefaultInterval, "dns: longest time between two lookups")
}

// builder returns the resolver for the scheme of a target, and what ends it.
func (f *sourceFlags) builder(target string) (b resolver.Builder, release func(), err error) {
	scheme, _, ok := strings.Cut(target, ":")
	if !ok {
		return nil, nil, fmt.Errorf("target %q has no scheme; begin with etcd:///, kubernetes:///, dns:/// or static:///", target)
	}
	release = func() {}
	switch scheme {
	case "etcd":
		return f.etcd()
	case "kubernetes":
		b, err = f.kubernetes()
	case "dns":
		b, err = dns.NewBuilder(dns.Config{Server: f.server, Interval: f.interval})
	case "static":
		b, err = static.NewBuilder(static.Config{})
	default:
		err = fmt.Errorf("scheme %q of target %q is not known; use etcd, kubernetes, dns or static", scheme, target)
	}
	return b, release, err
}

func (f *sourceFlags) etcd() (resolver.Builder, func(), error) {
	cfg := clientv3.Config{Endpoints: f.endpoints, Username: f.user, Password: os.Getenv(passwordVariable)}
	if f.user != "" && cfg.Password == "" {
		return nil, nil, fmt.Errorf("--user %s needs a password in the environment variable %s", f.user, passwordVariable)
	}
	if !f.tls.Empty() || f.tls.TrustedCAFile != "" {
		var err error
		if cfg.TLS, err = f.tls.ClientConfig(); err != nil {
			return nil, nil, fmt.Errorf("--cacert, --cert, --key: %w", err)
		}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("--endpoints: %w", err)
	}
	release := func() { _ = client.Close() }
	b, err := etcd.NewBuilder(client, etcd.Config{})
	if err != nil {
		release()
		return nil, nil, err
	}
	return b, release, nil
}

func (f *sourceFlags) kubernetes() (resolver.Builder, error) {
	cfg := kubernetes.Config{Namespace: f.namespace, Zone: f.zone}
	if f.kubeconfig != "" || f.kubeContext != "" {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = f.kubeconfig
		loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.kubeContext})
		rest, err := loaded.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig, --context: %w", err)
		}
		cfg.REST = rest
		if namespace, _, err := loaded.Namespace(); err == nil && cfg.Namespace == "" {
			cfg.Namespace = namespace
		}
	}
	b, err := kubernetes.NewBuilder(cfg)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; give --kubeconfig", err)
	}
	return b, err
}
