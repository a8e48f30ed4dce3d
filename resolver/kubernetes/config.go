package kubernetes

import (
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
	// them. It bounds how long a change waits after a role has been granted; a thousand clients
	// make 200 cheap requests a second meanwhile.
	DefaultMaxBackoff = 5 * time.Second

	// DefaultMassRemovalDelay is that of resolver/dns.
	DefaultMassRemovalDelay = 15 * time.Second
)

// Config says where the API server is and how its answers are used. The zero value is right
// in a pod.
type Config struct {
	// REST is how to reach the API server. If it is nil, the pod's service account is used,
	// and outside of a pod the kubeconfig by client-go's rules: the files of KUBECONFIG, else
	// ~/.kube/config.
	//
	// Tokens and certificates that REST names as files are read again when they are needed, so
	// that rotation goes unnoticed. Timeout, QPS, Burst and RateLimiter are not used: watches
	// last, and the pauses between attempts bound the rest. With a Transport of your own,
	// connections are its business, and so is finding out that they are dead. REST is copied:
	// later changes have no effect.
	REST *rest.Config

	// Namespace is that of targets that name none. If it is empty, it is the pod's own, else
	// that of the kubeconfig's current context (if REST is nil), else "default".
	Namespace string

	// Zone is the topology zone that this process runs in, the value of its node's label
	// topology.kubernetes.io/zone. With it the zone hints of EndpointSlices are followed, by
	// the rules of kube-proxy: if every ready endpoint has hints and some are for this zone,
	// those are used, and otherwise all. If it is empty, zone hints are not used.
	//
	// Kubernetes 1.35 and later copy the label to pods, where the downward API finds it:
	// fieldPath metadata.labels['topology.kubernetes.io/zone'].
	Zone string

	// Node is the name of the node that this process runs on. With it the node hints of
	// EndpointSlices (of services with trafficDistribution PreferSameNode) are followed, and
	// come before zone hints. If it is empty, node hints are not used. The downward API has
	// it: fieldPath spec.nodeName.
	Node string

	// Scheme is that of the targets. If it is empty, it is DefaultScheme.
	Scheme string

	// MaxBackoff is the longest pause between two requests to an API server that refuses them
	// or fails. Pauses begin at none, then 100 ms, and grow by 1.6 each, and each is made
	// shorter by up to 50 % at random. They begin again when a watch is established; those after
	// watches that end within a second, when one lasts longer. While no connection can be made they
	// are at most a second. A Retry-After of the API server is respected beyond it, up to 30 s. If it is
	// zero, it is DefaultMaxBackoff; the least is 100 ms.
	MaxBackoff time.Duration

	// MassRemovalDelay is how long endpoints stay that disappear all at once, so that fewer
	// than half are left, or none: when the nodes look lost to the control plane, say, and are
	// not. Time while the API server is away does not count. What is new is used at once. If it is
	// zero, it is DefaultMassRemovalDelay; if it is negative, there is no delay.
	MassRemovalDelay time.Duration
}

// schemes are what net/url and grpc accept, which compare them in lower case.
var schemes = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// validate returns all that is wrong with the configuration.
func (c Config) validate() error {
	var errs []error
	if c.Scheme != "" && !schemes.MatchString(c.Scheme) {
		errs = append(errs, fmt.Errorf("kubernetes: Config.Scheme %q is no URL scheme: use lower-case letters, digits, +, - and dots, and begin with a letter", c.Scheme))
	}
	if c.Namespace != "" {
		if reasons := validation.IsDNS1123Label(c.Namespace); len(reasons) > 0 {
			errs = append(errs, fmt.Errorf("kubernetes: Config.Namespace %q is no name of a namespace: %s", c.Namespace, reasons[0]))
		}
	}
	if c.MaxBackoff != 0 && c.MaxBackoff < firstPause {
		errs = append(errs, fmt.Errorf("kubernetes: Config.MaxBackoff is %v: use at least %v, or 0 for %v", c.MaxBackoff, firstPause, DefaultMaxBackoff))
	}
	return errors.Join(errs...)
}

// withDefaults returns the configuration with what the zero values stand for, the place of the
// API server and the namespace aside.
func (c Config) withDefaults() Config {
	if c.Scheme == "" {
		c.Scheme = DefaultScheme
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = DefaultMaxBackoff
	}
	if c.MassRemovalDelay == 0 {
		c.MassRemovalDelay = DefaultMassRemovalDelay
	}
	return c
}
