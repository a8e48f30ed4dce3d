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
// One Builder serves any number of channels. They share a connection to the API server, and
// those to one service share one watch. Nothing is registered with grpc globally.
//
// # Targets
//
//	kubernetes:///service[.namespace[.anything]][:port]    also kubernetes:service…
//	kubernetes://namespace/service[.namespace[.anything]][:port]
//	kubernetes://service[.namespace[.anything]][:number][/]
//
// so that DNS names such as users.shop.svc.cluster.local work. The default namespace is
// Config.Namespace. Build rejects ambiguous targets: two colons, two different namespaces, a
// path after an authority with a port, a query, names that are invalid in Kubernetes. A
// named port needs one of the first two forms: in the authority it makes the URL invalid,
// and grpc takes it for a DNS name.
//
// The port is one of
//   - a name, as in the Service and its EndpointSlices. It is found in each slice, so that it
//     may be another number on other pods.
//   - a number: that of the pods, the Service's targetPort. It is used as it is, because pods
//     may listen on ports that no Service names. The Service's own port (80, where targetPort
//     is 8080) is not known here, and connections to it would be refused; if none of the
//     slices has the number, a line in grpc's log says so and names those that they have.
//   - nothing: the first TCP port of each slice.
//
// The server name in TLS and in the :authority header is service.namespace, with the port
// if that is a number, unless grpc.WithAuthority is set.
//
// # Endpoints
//
// All slices of a service are merged. A pod is one endpoint (by its UID) with all its
// addresses, IPv4 before IPv6, and no address is in two endpoints. Addresses are used if they
// are ready or their readiness is not given; if there are none, those that are terminating
// and still serving, as kube-proxy does. Hints are followed if Config.Zone or Config.Node is
// set. The order is that of the addresses; a list that is equal to the last one is not
// published again. [Zone], [Node] and [Pod] return where an endpoint runs.
//
// If there are no endpoints, an empty list is published and the reason reported: no slices,
// no endpoints, none ready, no such port. Calls fail with it, at codes.Unavailable, unless
// they wait for ready, under pick_first and the policies of this project; grpc's own
// round_robin has "no children to pick from" in its place, and the reason is in grpc's log
// (GRPC_GO_LOG_SEVERITY_LEVEL=warning).
//
// # Permissions
//
// The verb watch on endpointslices of discovery.k8s.io is enough, in the namespaces of the
// services; API servers that do not stream lists (before Kubernetes 1.34, but for 1.32) need
// list as well. The folder manifests has a Role and a ClusterRole. A missing permission is the
// error of the RPCs of a channel that has no endpoints yet:
//
//	kubernetes: no permission to watch endpointslices.discovery.k8s.io for service "users"
//	in namespace "shop": grant the verb "watch" on apiGroup "discovery.k8s.io", resource
//	"endpointslices", by a Role in namespace "shop": …
//
// # Under faults
//
// While the API server is unreachable or refuses, the last list stays in use. The fault is
// reported to the channels, with a line in grpc's log at its begin and at its end. Attempts
// continue with pauses of at most Config.MaxBackoff, a second if no connection can be made.
//   - Watches that the server ends are made again at once, from where they were.
//   - If the history since then is gone (status 410), as after most restarts of the API
//     server, the list is streamed again, at once, and replaces the last one when it is
//     complete.
//   - A server that hangs is found out by an HTTP/2 ping after 15 s of silence, within 5 s. A
//     request that is not answered is given up after 15 s.
//   - A watch without events for two minutes, not even the bookmarks of every minute, is made
//     again over a new connection, with the whole list.
//   - With each new connection, certificates and the CA are read again from their files, and
//     the token when it is refused, once a minute at the latest.
//   - Permissions that are lost show when the current watch ends: the API server lets open
//     ones go on.
//
// Endpoints that disappear all at once stay for Config.MassRemovalDelay, also for channels that
// open meanwhile.
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
