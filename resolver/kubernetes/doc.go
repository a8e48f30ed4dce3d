// Package kubernetes is a gRPC resolver for Kubernetes services: it watches their
// EndpointSlices, and channels balance over the pods.
//
//	b, err := kubernetes.NewBuilder(kubernetes.Config{})
//	…
//	conn, err := grpc.NewClient("kubernetes:///users.shop:grpc",
//		grpc.WithResolvers(b),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
//		grpc.WithTransportCredentials(creds))
//
// Channels of one Builder share a connection to the API server, and those to one service share one
// watch. Nothing is registered with gRPC globally.
//
// # Targets
//
//	kubernetes:///service[.namespace[.anything]][:port]    also kubernetes:service…
//	kubernetes://namespace/service[.namespace[.anything]][:port]
//	kubernetes://service[.namespace[.anything]][:number][/]
//
// so that DNS names such as users.shop.svc.cluster.local work. The default namespace is
// Config.Namespace. Build rejects ambiguous targets: two colons, two different namespaces, a path
// after an authority with a port, a query, names that are invalid in Kubernetes. A named port
// requires one of the first two forms: in the authority it makes the URL invalid, and gRPC treats
// the target as a DNS name.
//
// The port is one of
//   - a name, as in the Service and its EndpointSlices. It is looked up in each slice, so pods
//     may use different numbers.
//   - a number: that of the pods, the Service's targetPort. It need not be in an EndpointSlice,
//     because pods may listen on ports that no Service names. The Service's own port (80 with
//     targetPort 8080) is unknown to the resolver, and connections to it would be refused; if no
//     slice has the number, a line in gRPC's log says so and lists their ports.
//   - absent: the first TCP port of each slice.
//
// The server name in TLS and in the :authority header is service.namespace, with the port
// if that is a number, unless grpc.WithAuthority is set.
//
// # Endpoints
//
// All slices of a service are merged. A pod is one endpoint (by its UID) with all its addresses,
// IPv4 before IPv6, and no address is in two endpoints. Addresses are used if they are ready or
// have no readiness; if there are none, those that are terminating and still serving, as
// kube-proxy does. Hints are followed if Config.Zone or Config.Node is set. Endpoints are sorted
// by address; a list that equals the last one is not published again. [Zone], [Node] and [Pod]
// return where an endpoint runs.
//
// If there are no endpoints, an empty list is published and the reason reported: no slices, no
// endpoints, none ready, no such port. Unless they wait for ready, calls fail with
// codes.Unavailable and this reason under pick_first and the quorate_ policies. gRPC's own
// round_robin fails them with "no children to pick from", and the reason is in gRPC's log
// (GRPC_GO_LOG_SEVERITY_LEVEL=warning).
//
// # Permissions
//
// The verb watch on endpointslices of discovery.k8s.io is sufficient, in the namespaces of the
// services; API servers that do not stream lists (before Kubernetes 1.34, except 1.32) also
// require list. The folder manifests has a Role and a ClusterRole. A missing permission is the
// error of calls on a channel that has no endpoints yet:
//
//	kubernetes: no permission to watch endpointslices.discovery.k8s.io for service "users"
//	in namespace "shop": grant the verb "watch" on apiGroup "discovery.k8s.io", resource
//	"endpointslices", by a Role in namespace "shop": …
//
// # Faults
//
// While the API server is unreachable or refuses requests, the last list stays in use. The fault
// is reported to the channels, with a line in gRPC's log at its beginning and at its end.
// Attempts continue with pauses of at most Config.MaxBackoff, or a second if no connection can
// be made.
//   - A watch that the server ends is resumed at once from its last version.
//   - If the history since then is gone (status 410), as after most restarts of the API
//     server, the list is streamed again, at once, and replaces the last one when it is
//     complete.
//   - A server that hangs is detected by an HTTP/2 ping after 15 s of silence, within 5 s. A
//     request without an answer is canceled after 15 s.
//   - A watch without events for two minutes, although bookmarks are due every minute, is
//     replaced over a new connection, with the whole list.
//   - Each new connection reads certificates and the CA from their files again. The token is
//     read again when it is refused, and at least once a minute.
//   - A revoked permission has an effect when the current watch ends: the API server does not
//     end open watches.
//
// Endpoints of which more than half disappear at once stay for Config.MassRemovalDelay, also for
// channels that open meanwhile. Those that terminate, or that hints exclude, leave at once.
//
// When a channel closes or becomes idle, its resolver ends with all connections and goroutines,
// even if the API server does not answer. When the channel leaves idle mode, a new one starts,
// with the last list if the API server does not answer within 0.3 s.
//
// # From kuberesolver
//
//	kuberesolver                          here
//	RegisterInCluster()                   the same, and an error
//	RegisterInClusterWithSchema("k8s")    NewBuilder(Config{Scheme: "k8s"}), grpc.WithResolvers
//	NewBuilder(client, "kubernetes")      NewBuilder(Config{REST: restConfig})
//	NewInsecureK8sClient(url)             Config{REST: &rest.Config{Host: url}}
//	only in clusters                      by kubeconfig elsewhere
//	verbs get, list and watch             watch
//	TLS server name service.namespace     the same, and grpc.WithAuthority changes it
//	targets                               the same, where they worked
//	last event wins among slices          merged
//	not published: zero endpoints         published and reported
//	metrics in Prometheus's registry      none; grpc's own channelz and log
package kubernetes
