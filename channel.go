package quorate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/health" // the health check of clients, which healthCheckConfig asks for
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies" // registers the policies that service configs name
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// Channel says how a gRPC channel treats the backends of its target. Only
// TransportCredentials must be given.
type Channel struct {
	// TransportCredentials secures the connections, as grpc.WithTransportCredentials does,
	// which must not be given as well. Leave it out for grpcpool.NewClient, whose
	// Config.TransportCredentials takes them.
	TransportCredentials credentials.TransportCredentials

	// Policy is the load-balancing policy: "quorate_p2c" (the default), or
	// "quorate_round_robin", "quorate_nearest", "quorate_pinned".
	Policy string
	// HealthService is the name of the service that backends are asked for by
	// grpc.health.v1, when they are suspected. Default: "", the server as a whole. A backend
	// without that health service, one that demands authentication, or one that does not know "" only has to answer.
	HealthService string

	// MaxEjectionPercent is how many of the backends may be ejected at a time because their calls fail or
	// are late, one in any case; negative: none. Default: 10, as in gRFC A50. Those that are silent while
	// others serve are ejected without that bound.
	MaxEjectionPercent int

	// Calls names the methods that may be executed twice, and those that may not; see [keepalive.Calls]. Its Base must
	// not choose a policy. Named calls wait for a connection while there is none (gRPC's waitForReady), until their
	// deadline. A Repeatable call that is answered unusually late is also sent to a second backend (a hedge),
	// and the first answer counts. Hedges are 5 at a time, and then 5 % of these calls; a hedge that wins makes room for
	// another. A Repeatable call on a backend that is found frozen is ended and made again elsewhere, within its deadline
	// and Calls.Timeout; a second time, only if the budget of hedges allows it. A call with a grpc.Header, Trailer, Peer or
	// OnFinish, which is for one attempt, is only repeated by gRPC. Default: no method is named, so gRPC
	// sends again only what no server has processed, and calls fail at once without a connection. Everything else in
	// Base counts as with gRPC's policies: with "healthCheckConfig", for example, a backend that says NOT_SERVING gets no
	// calls. A key that gRPC-Go does not honour, such as "hedgingPolicy", is an error, and so is a limit of all methods
	// that would not count for named ones.
	Calls keepalive.Calls

	// DrainTimeout is how long calls and streams on a backend that leaves the resolver's list may continue before its
	// connections are closed. If it returns before that, nothing ends. Default: 30 s.
	DrainTimeout time.Duration

	// Resolvers resolve targets of their schemes, as those of grpc.WithResolvers do. Default:
	// those that are registered with gRPC.
	Resolvers []resolver.Builder
	// Observer receives events about backends, picks, ejections and hedges, and about lists and errors of Resolvers, or,
	// without Resolvers, of those that are registered for "dns", "passthrough", "unix", "static", "etcd" and "kubernetes".
	// Resolvers of a grpc.WithResolvers that follows are not used for these schemes. It is for channels of one target.
	// With a proxy (HTTPS_PROXY) gRPC leaves dns targets to that, so that no lists are observed, and backends have the
	// proxy's address: grpc.WithNoProxy or NO_PROXY prevent that. Default: none.
	Observer observe.Observer
	// Report lists the channels while they are open, for introspect.Handler: backends with state, evidence and share,
	// calls in flight. It is for channels whose resolvers report to Observer. Default: none.
	Report *introspect.Channels

	// Keepalive is the client's and the server's keepalive, of which the client's is used.
	// Default: that of [keepalive.Stock], which every server accepts.
	Keepalive keepalive.Pair
}

// DialOptions returns the options for grpc.NewClient or grpcpool.NewClient, or an error that names
// the field that is wrong.
//
// With them a backend that freezes, stops or vanishes while others serve is noticed within
// a second: its connections are closed, calls on them fail with Unavailable or go elsewhere
// if they are Repeatable, and it gets no calls until it serves again. One whose calls fail or are
// late, while others do well, gets single calls until these succeed. See package balancer.
//
// Streams are checked for silence, each by its own pace, without Calls too: one on a backend that freezes ends with
// Unavailable, about 0.5 s after four times its usual pause, or 0.25 s if that is longer, and its owner opens it elsewhere. One
// that only sends ends about a second after the backend stops to take its messages. A stream without a pace, because it was
// silent for long or is new, is checked every 10 to 20 s as the budget of probes allows. A stream on a healthy backend may be
// silent for ever. One whose connection the server closes gracefully (GOAWAY) goes on there, as with gRPC's policies.
//
// A [balancer.Attempt] in the context of a call or a stream is honoured: its class, shape and need count, its Watcher is
// called, and it records the latest endpoint.
//
// A service config of the resolver, or of xDS, replaces the policy and what Calls says of
// retries.
func (c Channel) DialOptions() ([]grpc.DialOption, error) {
	c.Policy = cmp.Or(c.Policy, balancer.Prefix+"p2c")
	config, err := c.serviceConfig()
	if err != nil {
		return nil, err
	}
	if c.Keepalive == (keepalive.Pair{}) {
		c.Keepalive = keepalive.Stock().Pair()
	}
	options, err := c.Keepalive.DialOptions()
	if err != nil {
		return nil, fmt.Errorf("quorate: Channel.Keepalive: %w", err)
	}
	options = append(options, grpc.WithChainStreamInterceptor(openStream))
	if c.TransportCredentials != nil {
		options = append(options, grpc.WithTransportCredentials(balancer.Credentials(c.TransportCredentials)))
	}
	if resolvers := c.resolvers(); len(resolvers) > 0 {
		options = append(options, grpc.WithResolvers(resolvers...))
	}
	connect := grpc.WithConnectParams(balancer.ConnectParams()) // in place of those of Calls
	if len(c.Calls.Repeatable)+len(c.Calls.Once) == 0 && c.Calls.Timeout >= 0 && (keepalive.Sizes{MaxRequest: c.Calls.MaxRequest}).Validate() == nil {
		return append(options, connect, grpc.WithDefaultServiceConfig(config)), nil
	}
	c.Calls.Base = config
	calls, err := c.Calls.DialOptions()
	if err != nil {
		return nil, fmt.Errorf("quorate: Channel.Calls: %w", err)
	}
	hedger := newHedger(c.Calls, c.Observer)
	return append(append(options, calls...), connect, grpc.WithChainUnaryInterceptor(hedger.intercept)), nil
}

func (c Channel) serviceConfig() (string, error) {
	if !strings.HasPrefix(c.Policy, balancer.Prefix) {
		return "", fmt.Errorf("quorate: Channel.Policy: %q; it must be quorate_p2c, quorate_round_robin, quorate_nearest or quorate_pinned", c.Policy)
	}
	config := make(map[string]any)
	if c.Calls.Base != "" {
		if err := json.Unmarshal([]byte(c.Calls.Base), &config); err != nil || config == nil {
			return "", fmt.Errorf("quorate: Channel.Calls.Base is no service config: %s", c.Calls.Base)
		}
		if err := checkBase(config, c.Calls); err != nil {
			return "", err
		}
	}
	policy := map[string]any{"healthProbe": map[string]any{"serviceName": c.HealthService}}
	switch {
	case c.MaxEjectionPercent > 100:
		return "", fmt.Errorf("quorate: Channel.MaxEjectionPercent: %d; it must be at most 100", c.MaxEjectionPercent)
	case c.MaxEjectionPercent != 0:
		policy["outlierDetection"] = map[string]any{"maxEjectionPercent": max(c.MaxEjectionPercent, 0)}
	}
	switch {
	case c.DrainTimeout < 0:
		return "", fmt.Errorf("quorate: Channel.DrainTimeout: %v; it must be positive, or 0 for %v", c.DrainTimeout, balancer.DefaultDrainTimeout)
	case c.DrainTimeout > 0:
		policy["drainTimeout"] = fmt.Sprintf("%d.%09ds", c.DrainTimeout/time.Second, c.DrainTimeout%time.Second)
	}
	config["loadBalancingConfig"] = []any{map[string]any{c.Policy: policy}}
	text, err := json.Marshal(config)
	return string(text), err
}
