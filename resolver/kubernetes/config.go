package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// DefaultScheme is the scheme of targets, as in "kubernetes:///users.shop:grpc".
	DefaultScheme = "kubernetes"

	// DefaultMaxBackoff is the longest pause between two requests to an API server that refuses
	// them, and so the delay after a role has been granted. A thousand clients make 200 cheap
	// requests a second meanwhile.
	DefaultMaxBackoff = 5 * time.Second

	// DefaultMassRemovalDelay is the default of resolver/dns.
	DefaultMassRemovalDelay = 15 * time.Second
)

// Config configures a resolver. The zero value is suitable in a pod.
type Config struct {
	// REST configures access to the API server. If it is nil, the pod's service account is used,
	// and outside of a pod the kubeconfig by client-go's rules: the files of KUBECONFIG, else
	// ~/.kube/config.
	//
	// Tokens and certificates that REST names as files are read again when they are needed, so
	// they can be rotated. Timeout, QPS, Burst and RateLimiter are ignored: watches are
	// long-lived, and the backoff bounds the rate of attempts. A custom Transport manages its
	// connections and has to detect dead ones. REST is copied: later changes have no effect.
	REST *rest.Config

	// Namespace is the namespace of targets that name none. If it is empty, it is the pod's own,
	// else that of the kubeconfig's current context (if REST is nil), else "default".
	Namespace string

	// Zone is the topology zone of this process, the value of its node's label
	// topology.kubernetes.io/zone. If it is set, zone hints of EndpointSlices are followed by the
	// rules of kube-proxy: if every ready endpoint has hints and some are for this zone, only
	// those endpoints are used. If it is empty, zone hints are ignored.
	//
	// Kubernetes 1.35 and later copy the label to pods, where the downward API provides it:
	// fieldPath metadata.labels['topology.kubernetes.io/zone'].
	Zone string

	// Node is the name of the node of this process. If it is set, node hints of EndpointSlices (of
	// services with trafficDistribution PreferSameNode) are followed, before zone hints. If it is
	// empty, node hints are ignored. The downward API provides it: fieldPath spec.nodeName.
	Node string

	// Scheme is the scheme of the targets. Default: DefaultScheme.
	Scheme string

	// MaxBackoff is the longest pause between two requests to an API server that refuses them or
	// fails. There is no pause after the first failure; then pauses begin at 100 ms, grow by 1.6
	// each, and are shortened by up to 50 % at random. They start again at 100 ms when a watch is
	// established; the pauses after watches that end within a second do so when a watch lasts
	// longer. While no connection can be made, they are at most a second. A longer Retry-After of
	// the API server is respected, up to 30 s. Default: DefaultMaxBackoff; the minimum is 100 ms.
	MaxBackoff time.Duration

	// MassRemovalDelay is how long endpoints are kept if so many disappear at once that fewer than
	// half remain: for example when the control plane loses contact with healthy nodes. Endpoints
	// that terminate, or that hints exclude, are removed at once. Time while the API server is
	// unreachable does not count. Default: DefaultMassRemovalDelay; negative: no delay.
	MassRemovalDelay time.Duration
}

// schemes matches what net/url and gRPC accept, which compare schemes in lower case.
var schemes = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

func (c Config) validate() error {
	var errs []error
	if c.Scheme != "" && !schemes.MatchString(c.Scheme) {
		errs = append(errs, fmt.Errorf("kubernetes: Config.Scheme %q is not a URL scheme: use lower-case letters, digits, +, - and dots, and begin with a letter", c.Scheme))
	}
	if c.Namespace != "" {
		if reasons := validation.IsDNS1123Label(c.Namespace); len(reasons) > 0 {
			errs = append(errs, fmt.Errorf("kubernetes: Config.Namespace %q is not the name of a namespace: %s", c.Namespace, reasons[0]))
		}
	}
	if c.MaxBackoff != 0 && c.MaxBackoff < firstPause {
		errs = append(errs, fmt.Errorf("kubernetes: Config.MaxBackoff is %v: use at least %v, or 0 for %v", c.MaxBackoff, firstPause, DefaultMaxBackoff))
	}
	return errors.Join(errs...)
}

// withDefaults returns the configuration with defaults for zero values, except REST and Namespace.
func (c Config) withDefaults() Config {
	c.Scheme = cmp.Or(c.Scheme, DefaultScheme)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, DefaultMaxBackoff)
	c.MassRemovalDelay = cmp.Or(c.MassRemovalDelay, DefaultMassRemovalDelay)
	return c
}

// podEnvironment is how a process detects that it runs in a pod.
type podEnvironment struct {
	inCluster     func() (*rest.Config, error)
	namespaceFile string // in which the kubelet stores the namespace
}

func currentEnvironment() podEnvironment {
	return podEnvironment{inCluster: rest.InClusterConfig, namespaceFile: "/var/run/secrets/kubernetes.io/serviceaccount/namespace"}
}

// complete returns the configuration with the API server and the namespace filled in. The namespace is that of the pod, else,
// unless the API server was given, that of the kubeconfig's context, else the default one.
func (e podEnvironment) complete(c Config) (Config, error) {
	namespace := ""
	if raw, err := os.ReadFile(e.namespaceFile); err == nil { // it exists only in a pod
		namespace = strings.TrimSpace(string(raw))
	}
	if c.REST == nil {
		kubeconfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
		var err error
		if c.REST, err = e.find(kubeconfig); err != nil {
			return c, err
		}
		if namespace == "" {
			namespace, _, _ = kubeconfig.Namespace() // "" with an error
		}
	}
	c.Namespace = cmp.Or(c.Namespace, namespace, "default")
	return c, nil
}

// find returns the default configuration of the API server connection.
func (e podEnvironment) find(kubeconfig clientcmd.ClientConfig) (*rest.Config, error) {
	cfg, err := e.inCluster()
	if err == nil {
		return cfg, nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("kubernetes: this is a pod, but its service account cannot be used (is automountServiceAccountToken off?): %w", err)
	}
	cfg, err = kubeconfig.ClientConfig()
	if err == nil {
		return cfg, nil
	}
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("kubernetes: no API server: this is not a pod, and neither KUBECONFIG nor ~/.kube/config names one: set Config.REST or KUBECONFIG")
	}
	return nil, fmt.Errorf("kubernetes: the kubeconfig cannot be used: %w", err)
}

// timing holds the timeouts for detecting an unreachable API server.
type timing struct {
	// answer bounds the time to the header of a response, including the connection.
	answer time.Duration
	// listed bounds the time without a new slice in a streamed list. A server that does not
	// support streamed lists never ends one.
	listed time.Duration
	// silence bounds the time without an event of a watch, in which bookmarks come every minute,
	// and the time to read a list.
	silence time.Duration
	// After ping without data, a connection is pinged, and closed if there is no answer within
	// pong. client-go's own values, 30 s and 15 s, can be changed only for a whole process.
	ping, pong time.Duration
	// idle is how long an unused connection is kept. Concurrent requests may open one each.
	idle time.Duration
	// steady is how long a watch must last to count as a success, after which the next one opens
	// at once.
	steady time.Duration
}

func defaultTiming() timing {
	return timing{
		answer:  15 * time.Second,
		listed:  10 * time.Second,
		silence: 2 * time.Minute,
		ping:    15 * time.Second,
		pong:    5 * time.Second,
		idle:    30 * time.Second,
		steady:  time.Second,
	}
}
