package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
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
	// half remain: for example when the control plane loses contact with healthy nodes. Time while
	// the API server is unreachable does not count. New endpoints are used at once. Default:
	// DefaultMassRemovalDelay; negative: no delay.
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
