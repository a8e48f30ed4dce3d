package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/resolver/dns"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/static"
)

// sourceFlags say where targets are looked up.
type sourceFlags struct {
	client connectionFlags

	kubernetes kubernetesFlags

	server   string
	interval time.Duration
}

// kubernetesFlags say how the API server of Kubernetes is reached.
type kubernetesFlags struct {
	kubeconfig string
	context    string
	namespace  string
	zone       string
	node       string
}

func (f *sourceFlags) register(fs *pflag.FlagSet) {
	f.client.register(fs)
	fs.StringVar(&f.kubernetes.kubeconfig, "kubeconfig", "", "kubernetes: `file` to use (default: in a pod its service account, else as kubectl does)")
	fs.StringVar(&f.kubernetes.context, "context", "", "kubernetes: `name` of the context in the kubeconfig")
	fs.StringVar(&f.kubernetes.namespace, "namespace", "", "kubernetes: `namespace` of targets that name none")
	fs.StringVar(&f.kubernetes.zone, "zone", "", "kubernetes: `zone` whose hints are followed (default: no hints are)")
	fs.StringVar(&f.kubernetes.node, "node", "", "kubernetes: `name` of the node whose hints come before those of the zone")
	fs.StringVar(&f.server, "server", "", "dns: server to ask, as `host:port` (default: those of resolv.conf)")
	fs.DurationVar(&f.interval, "interval", dns.DefaultInterval, "dns: longest time between two lookups")
}

// withScheme returns a target with a scheme. Like gRPC, it takes one without for a name in DNS.
func withScheme(target string) string {
	scheme, _, _ := strings.Cut(target, ":")
	if slices.Contains([]string{"etcd", "kubernetes", "dns", "static", "unix", "unix-abstract"}, scheme) || strings.Contains(target, "://") {
		return target
	}
	return "dns:///" + target
}

// builder returns the resolver for the scheme of a target, and what ends it.
func (f *sourceFlags) builder(target string) (b resolver.Builder, release func(), err error) {
	scheme, _, _ := strings.Cut(target, ":")
	release = func() {}
	switch scheme {
	case "etcd":
		return f.etcd(target)
	case "kubernetes":
		b, err = f.kubernetes.builder()
	case "dns":
		b, err = dns.NewBuilder(dns.Config{Server: f.server, Interval: f.interval})
	case "static":
		b, err = static.NewBuilder(static.Config{})
	case "unix", "unix-abstract":
		b = resolver.Get(scheme) // gRPC's own
	default:
		err = fmt.Errorf("scheme %q of target %q is not known; use etcd, kubernetes, dns, static or unix", scheme, endpoint.Redact(target))
	}
	return b, release, err
}

func (f *sourceFlags) etcd(target string) (resolver.Builder, func(), error) {
	if err := checkEtcdTarget(target); err != nil {
		return nil, nil, err
	}
	cfg, err := f.client.config()
	if err != nil {
		return nil, nil, err
	}
	client, err := connect(cfg)
	if err != nil {
		return nil, nil, err
	}
	b, err := etcd.NewBuilder(client, etcd.Config{}) // fails only without a client
	return b, func() { _ = client.Close() }, err
}

// checkEtcdTarget refuses what the resolver would ignore, as the official client's does, and
// what no server registers below.
func checkEtcdTarget(target string) error {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return fmt.Errorf("target %q is no URL", endpoint.Redact(target))
	case u.Host != "" || u.User != nil:
		return fmt.Errorf("target %q: there can be nothing between the second slash and the third; write etcd:///SERVICE, and --endpoints for etcd's addresses", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf(`target %q: "?" and "#" have no meaning in it; write etcd:///SERVICE`, target)
	case strings.HasSuffix(u.Opaque+u.Path, "/"):
		return fmt.Errorf("target %q: the name of the service is missing, or ends with a slash; write etcd:///SERVICE", target)
	}
	return nil
}
