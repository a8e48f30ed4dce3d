package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/resolve"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
	"github.com/quorate/quorate/internal/endpoint"
	"github.com/quorate/quorate/resolver/dns"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/static"
)

type resolveFlags struct {
	source sourceFlags

	once       bool
	duration   time.Duration
	json       bool
	health     string
	service    string
	healthTLS  bool
	healthCA   string
	probeEvery time.Duration
}

func newResolveCommand() *cobra.Command {
	var flags resolveFlags
	cmd := &cobra.Command{
		Use:   "resolve TARGET",
		Short: "Show what a gRPC target resolves to, live, and how the endpoints are",
		Long: `resolve shows what a gRPC target resolves to, and every change of it, until it
is interrupted. Targets are

  etcd:///billing                    endpoints registered in etcd below "billing"
  kubernetes:///billing.shop:grpc    ready endpoints of a Kubernetes service
  dns:///billing.shop.svc:8080       addresses of a name, as of a headless service
  dns:///_grpc._tcp.billing.shop.svc addresses and ports from SRV records
  static:///10.0.0.1:80,10.0.0.2:80  these

Targets of kubernetes need a program that was built with -tags kubernetes: client-go
would more than double its size.

With --health every endpoint is asked how it is, every second, over a connection of
its own: with grpc.health.v1, or as a member of an etcd cluster.

With --once the exit status is that of "etcdctl endpoint health": 0 if there are
endpoints and, with --health, all of them serve; 1 if there is none, or one does not
serve. It is 2 if neither is known: the source cannot be asked, there is no answer
within --duration, or the target or a flag has no meaning.

With --json each line is an object with a "type" and a "time":

  endpoints  "endpoints": all that there are, each with "addresses", "weight" and "metadata"
  error      "error": why the source cannot be asked; the last endpoints stay in use
  health     "endpoint", its new "state", and the "evidence" for it

For etcd:/// the flags and variables of etcdctl count: a variable, such as ETCDCTL_CACERT
or ETCDCTL_PASSWORD, if its flag is not given.`,
		Example: `  quorate resolve etcd:///billing --endpoints http://10.0.0.1:2379
  quorate resolve kubernetes:///billing.shop:grpc --health --once
  quorate resolve dns:///billing.shop.svc.cluster.local:8080 --once --json
  quorate resolve static:///10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 --health=etcd`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1:
				return nil
			case flags.health != "" && (slices.Contains(args, "grpc") || slices.Contains(args, "etcd")):
				return cli.Usage(cmd, errors.New("a kind of --health is joined to it: --health=grpc or --health=etcd"))
			}
			return cli.Usage(cmd, fmt.Errorf("resolve takes one target, not %d", len(args)))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	flags.register(cmd)
	return cmd
}

func (f *resolveFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.once, "once", false, "end with the first answer, and an exit status that says what it is")
	fs.DurationVar(&f.duration, "duration", 0, "end after this time (default: never); with --once the longest time to wait")
	fs.BoolVar(&f.json, "json", false, "print an object a line, for programs")
	fs.StringVar(&f.health, "health", "", "ask the endpoints how they are: grpc.health.v1 (\"grpc\"), or etcd members (\"etcd\")")
	fs.Lookup("health").NoOptDefVal = "grpc"
	fs.StringVar(&f.service, "service", "", "`name` that grpc.health.v1 is asked for (default: the server as a whole)")
	fs.BoolVar(&f.healthTLS, "health-tls", false, "ask the endpoints over TLS")
	fs.StringVar(&f.healthCA, "health-cacert", "", "`file` with the certificate authorities of the endpoints; implies --health-tls")
	fs.DurationVar(&f.probeEvery, "health-every", resolve.DefaultProbeEvery, "pause between two probes of an endpoint")
	f.source.register(fs)
}

// prober returns the prober of the flags, or nil.
func (f *resolveFlags) prober() (health.Prober, error) {
	switch f.health {
	case "":
		return nil, nil
	case "grpc":
		return grpcprobe.Prober{Service: f.service}, nil
	case "etcd":
		return resolve.Member{}, nil
	default:
		return nil, fmt.Errorf("--health=%s: it is \"grpc\" or \"etcd\"", f.health)
	}
}

func (f *resolveFlags) credentials() (credentials.TransportCredentials, error) {
	switch {
	case f.healthCA != "":
		return credentials.NewClientTLSFromFile(f.healthCA, "")
	case f.healthTLS:
		return credentials.NewTLS(nil), nil
	default:
		return insecure.NewCredentials(), nil
	}
}

func (f *resolveFlags) run(cmd *cobra.Command, target string) error {
	prober, err := f.prober()
	if err != nil {
		return cli.Usage(cmd, err)
	}
	if f.probeEvery <= 0 || f.duration < 0 {
		return cli.Usage(cmd, errors.New("--health-every must be positive, and --duration not negative"))
	}
	creds, err := f.credentials()
	if err != nil {
		return fmt.Errorf("--health-cacert: %w", err)
	}
	target = withScheme(target)
	b, release, err := f.source.builder(target)
	if err != nil {
		return cli.Usage(cmd, err)
	}
	defer release()
	ctx := cmd.Context()
	if f.duration > 0 {
		over := errShown
		if f.once {
			over = fmt.Errorf("no answer within %v (--duration)", f.duration)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.duration, over)
		defer cancel()
	}
	err = f.show(ctx, cmd.OutOrStdout(), b, target, prober, creds)
	if errors.Is(err, errShown) {
		return nil
	}
	return err
}

// errShown ends a command that has shown its result.
var errShown = errors.New("shown")

// show shows what the target resolves to, and how the endpoints are if there is a prober,
// until ctx ends, or for the first answer.
func (f *resolveFlags) show(
	ctx context.Context, out io.Writer, b resolver.Builder, target string, prober health.Prober, creds credentials.TransportCredentials,
) error {
	ctx, stop := cli.WhileRead(ctx, out)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := &display{once: f.once, end: end, printer: resolve.Printer{Out: out, JSON: f.json}}
	if prober != nil {
		s.states = map[string]health.State{}
		s.probes = resolve.NewProbes(prober, creds, f.probeEvery, s.changed)
		defer s.probes.Close()
	}
	return resolve.Follow(ctx, b, target, s.updated)
}

// display prints events, in order.
type display struct {
	probes *resolve.Probes // nil without probes
	once   bool            // the first answer ends the command
	end    func(error)     // ends the command

	mu      sync.Mutex
	printer resolve.Printer
	wanted  map[string]bool         // endpoints that there are; nil before the first list
	states  map[string]health.State // of those that were asked, also of endpoints that went
}

// printLocked prints an event. A failure ends the command: the output has no reader.
func (s *display) printLocked(e resolve.Event) {
	if err := s.printer.Print(e); err != nil {
		s.end(fmt.Errorf("the output has no reader: %w", err))
	}
}

func (s *display) updated(e resolve.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.once || e.Error == "" { // else the command's own error says it
		s.printLocked(e)
	}
	if s.once {
		empty := s.wanted != nil && len(s.wanted) == 0
		s.wanted = e.Names()
		switch {
		case e.Error != "" && empty:
			s.end(cli.NegativeError("the target resolves to no endpoint: " + e.Error))
		case e.Error != "":
			s.end(errors.New(e.Error))
		case len(e.Endpoints) > 0: // after an empty list the source says why it is empty
			s.finishLocked()
		}
	}
	if s.probes != nil && e.Error == "" {
		s.probes.Set(e.Published)
	}
}

func (s *display) changed(c health.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printLocked(resolve.Changed(c))
	s.states[c.Endpoint] = c.To
	if s.once {
		s.finishLocked()
	}
}

// finishLocked ends the command if the first answer is whole: a suspected endpoint is asked again.
func (s *display) finishLocked() {
	if s.probes == nil {
		s.end(errShown)
		return
	}
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(s.wanted)) {
		switch state := s.states[name]; state {
		case health.Unknown, health.Suspected:
			return
		case health.Serving:
		default:
			bad = append(bad, fmt.Sprintf("%s is %v", name, state))
		}
	}
	if len(bad) > 0 {
		s.end(cli.NegativeError(fmt.Sprintf("%d of %d endpoints do not serve: %s", len(bad), len(s.wanted), strings.Join(bad, ", "))))
		return
	}
	s.end(errShown)
}

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
