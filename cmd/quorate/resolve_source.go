package main

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/resolver/dns"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/static"
)

// passwordVariable is the environment variable with the password for --user, which has no flag:
// an argument can be read by every user of the machine.
const passwordVariable = "ETCDCTL_PASSWORD"

// etcdFlags are the flags of etcd that have a variable, by etcdctl's rule.
var etcdFlags = []string{"endpoints", "cacert", "cert", "key", "user"}

// variableOf returns the environment variable that etcdctl has for a flag.
func variableOf(flag string) string { return "ETCDCTL_" + strings.ToUpper(flag) }

// sourceFlags say where targets are looked up.
type sourceFlags struct {
	endpoints []string
	tls       transport.TLSInfo
	user      string

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
	fs.StringSliceVar(&f.endpoints, "endpoints", []string{"127.0.0.1:2379"}, "etcd: its endpoints")
	fs.StringVar(&f.tls.TrustedCAFile, "cacert", "", "etcd: `file` with its certificate authorities")
	fs.StringVar(&f.tls.CertFile, "cert", "", "etcd: `file` with our certificate")
	fs.StringVar(&f.tls.KeyFile, "key", "", "etcd: `file` with our key")
	fs.StringVar(&f.user, "user", "", "etcd: `name` of the user, with the password in "+passwordVariable+", or \"name:password\"")
	fs.StringVar(&f.kubernetes.kubeconfig, "kubeconfig", "", "kubernetes: `file` to use (default: in a pod its service account, else as kubectl does)")
	fs.StringVar(&f.kubernetes.context, "context", "", "kubernetes: `name` of the context in the kubeconfig")
	fs.StringVar(&f.kubernetes.namespace, "namespace", "", "kubernetes: `namespace` of targets that name none")
	fs.StringVar(&f.kubernetes.zone, "zone", "", "kubernetes: `zone` whose hints are followed (default: no hints are)")
	fs.StringVar(&f.kubernetes.node, "node", "", "kubernetes: `name` of the node whose hints come before those of the zone")
	fs.StringVar(&f.server, "server", "", "dns: server to ask, as `host:port` (default: those of resolv.conf)")
	fs.DurationVar(&f.interval, "interval", dns.DefaultInterval, "dns: longest time between two lookups")
}

// builder returns the resolver for the scheme of a target, and what ends it.
func (f *sourceFlags) builder(fs *pflag.FlagSet, target string) (b resolver.Builder, release func(), err error) {
	scheme, _, ok := strings.Cut(target, ":")
	if !ok {
		return nil, nil, fmt.Errorf("target %q has no scheme; begin with etcd:///, kubernetes:///, dns:/// or static:///", target)
	}
	release = func() {}
	switch scheme {
	case "etcd":
		return f.etcd(fs, target)
	case "kubernetes":
		b, err = f.kubernetes.builder()
	case "dns":
		b, err = dns.NewBuilder(dns.Config{Server: f.server, Interval: f.interval})
	case "static":
		b, err = static.NewBuilder(static.Config{})
	default:
		err = fmt.Errorf("scheme %q of target %q is not known; use etcd, kubernetes, dns or static", scheme, target)
	}
	return b, release, err
}

func (f *sourceFlags) etcd(fs *pflag.FlagSet, target string) (resolver.Builder, func(), error) {
	if err := checkEtcdTarget(target); err != nil {
		return nil, nil, err
	}
	origins, err := readVariables(fs)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := f.clientConfig(origins)
	if err != nil {
		return nil, nil, err
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", origins["endpoints"], err)
	}
	release := func() { _ = client.Close() }
	b, err := etcd.NewBuilder(client, etcd.Config{})
	if err != nil {
		release()
		return nil, nil, err
	}
	return b, release, nil
}

// checkEtcdTarget refuses what the resolver would ignore, as the official client's does, and
// what no server registers below.
func checkEtcdTarget(target string) error {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return fmt.Errorf("target: %w", err)
	case u.Host != "" || u.User != nil:
		return fmt.Errorf("target %q: there can be nothing between the second slash and the third; write etcd:///SERVICE, and --endpoints for etcd's addresses", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf(`target %q: "?" and "#" have no meaning in it; write etcd:///SERVICE`, target)
	case strings.HasSuffix(u.Opaque+u.Path, "/"):
		return fmt.Errorf("target %q: the name of the service is missing, or ends with a slash; write etcd:///SERVICE", target)
	}
	return nil
}

// readVariables sets the flags of etcd that were not given from their variables. It returns the
// name under which the user knows each: the flag, or the variable.
func readVariables(fs *pflag.FlagSet) (origins map[string]string, err error) {
	origins = map[string]string{}
	for _, name := range etcdFlags {
		origins[name] = "--" + name
		value := os.Getenv(variableOf(name))
		if value == "" || fs.Changed(name) {
			continue
		}
		origins[name] = variableOf(name)
		if err := fs.Set(name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", variableOf(name), err)
		}
	}
	return origins, nil
}

// clientConfig returns how etcd is reached. Its errors name the flags and variables.
func (f *sourceFlags) clientConfig(origins map[string]string) (clientv3.Config, error) {
	name, password, hasPassword := strings.Cut(f.user, ":")
	if !hasPassword {
		password = os.Getenv(passwordVariable)
	}
	if name != "" && password == "" {
		return clientv3.Config{}, fmt.Errorf("%s needs a password: set %s", origins["user"], passwordVariable)
	}
	cfg := clientv3.Config{Endpoints: f.endpoints, Username: name, Password: password}
	var given []string
	for flag, file := range map[string]string{"cacert": f.tls.TrustedCAFile, "cert": f.tls.CertFile, "key": f.tls.KeyFile} {
		if file != "" {
			given = append(given, origins[flag])
		}
	}
	if len(given) == 0 {
		return cfg, nil
	}
	var err error
	if cfg.TLS, err = f.tls.ClientConfig(); err != nil {
		slices.Sort(given)
		return clientv3.Config{}, fmt.Errorf("%s: %w", strings.Join(given, ", "), err)
	}
	return cfg, nil
}
