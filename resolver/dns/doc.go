// Package dns is a gRPC resolver that looks up DNS names periodically, so that channels
// follow the backends of, for example, a headless service of Kubernetes:
//
//	builder, err := dns.NewBuilder(dns.Config{}) // one for all channels of the program
//	…
//	conn, err := grpc.NewClient("dns:///greeter.prod.svc.cluster.local:50051",
//		grpc.WithResolvers(builder),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`), …)
//
// gRPC's own resolver repeats a lookup only when a connection is lost, and at most every 30 s, so
// that a client does not see new backends while the old ones work. Channels without the Builder
// keep using it: nothing is registered and no setting is changed. If a framework takes no dial
// options, resolver.Register(builder) applies to all channels of the process.
//
// # Targets
//
//	dns:///host:port                  the addresses of host (A and AAAA records)
//	dns:///host                       the same, with gRPC's default port, 443
//	dns:///:port                      localhost
//	dns:///10.1.2.3:port              no lookup
//	dns:///[2001:db8::1]:port         no lookup
//	dns:///_grpc._tcp.domain          SRV records: names and ports of backends
//	dns:///billing.service.consul?srv SRV records of a name without these labels
//	dns://server/…, dns://server:53/… any of these, asked of one DNS server
//
// A name that begins with two labels with underscores means SRV records, and takes no port;
// Kubernetes has _port._tcp.service.namespace.svc.cluster.local for each named port of a
// headless service. The authority of the calls, against which certificates are checked, is the
// rest of the name, never a name from a record: records can be forged.
//
// Go's own resolver completes names and looks them up: with the search domains, ndots and servers
// of resolv.conf(5), which it reads again when it changes, and with hosts(5). A server that is
// silent for a third of Config.Timeout is skipped for 30 s while another one answers. A search
// domain without a response is skipped, unless the name was found there before: the name may belong
// to another service in the next domain. That a name does not exist counts if all search domains
// respond, or the one in which it was found before. In a pod of Kubernetes, which has "ndots:5" and
// three search domains, end a full name with a dot, svc.ns.svc.cluster.local.:port: a lookup then
// takes two queries instead of eight. Service configs in TXT records are not read.
//
// An invalid target fails the calls with a descriptive error, but not grpc.NewClient.
//
// gRPC uses no resolver for a "dns" target behind a proxy (HTTPS_PROXY): the proxy looks
// it up. grpc.WithNoProxy, grpc.WithLocalDNSResolution or another Config.Scheme prevent
// that. The name of the proxy is looked up by the Builder that is registered for "dns".
//
// # Backends
//
// Each address of a name is a backend. If a name has several IPv4 and IPv6 addresses, it is unknown
// which belong together, and one family is used, see FamilyAuto; one of each is one backend with
// two addresses. The target of an SRV record is one backend with all of its addresses. Of the SRV
// records, those of the best priority that have addresses are used; with Config.Backups all are,
// and the quorate_* policies fail over to the next priority and back. Their weights and priorities
// are those of package balancer. If the DNS server sends the addresses with the SRV records, as
// CoreDNS does, one lookup suffices; targets for which it omits all addresses, or a known one, are
// looked up separately, eight at a time. If one has no known address and its lookup fails, or has no
// time left, the others are used, the reason is reported, and the next lookup follows as after a failure.
//
// Consul, Route 53 and Cloud Map return only a part of the backends in each answer. Such
// answers are recognized and merged, see Config.RotationWindow.
//
// Backends are sorted. An unchanged list is not published again, and connections to
// backends that stay are kept. Choose a policy, as above, or pick_first with "shuffleAddressList": by default gRPC
// uses pick_first, with which all clients would use the first backend.
//
// # Lookups
//
// All channels of one Builder share the lookups of a name: there is one per interval (5 s by
// default), regardless of the number of channels and ports, and a new channel gets the last answer
// at once. If the TTL is shorter than the interval, the next lookup is when the answer expires, but
// at least one second (Config.MinInterval) after the last; a TTL of zero is ignored. A longer TTL
// does not delay the next lookup. When gRPC requests a lookup, because a connection was lost, there
// is one at once, but at most one per MinInterval and name, and none while lookups fail.
//
// Lookups stop when the last channel of a name closes or goes idle. A channel that opens or leaves
// idle mode within the interval continues with the last answer; later, up to Config.MaxListAge, it
// starts with the last list if the first lookup fails or takes more than 0.3 s, and gets the
// reason as an error.
//
// # Faults
//
// While a name cannot be looked up (SERVFAIL, REFUSED, no answer), the last good list stays. Each
// reason is reported to the channel once, and gRPC's log ("quorate-dns") has one line at the
// beginning and one at the end. Attempts are made after 1, 2, 4 s and then every interval. Without
// a list, calls fail with the reason, unless they wait for ready.
//
// If only the query for IPv4 or for IPv6 addresses fails, the list stays for
// Config.MassRemovalDelay if it has addresses of that family; then, or otherwise, the other
// family's are used. The target of an SRV record keeps its known addresses of that family.
//
// An answer that a name does not exist, or has no addresses, counts at once if there was no list
// before. Otherwise it is delayed, like an answer with fewer than half of the backends, or a name
// that is now found only in another search domain: a DNS server that has just started may give such
// answers. The backends stay for Config.MassRemovalDelay, 15 s, while the answers repeat; new ones
// are used in addition. As a consequence, connections to a service that was scaled to zero fail for
// that long. Then the shorter list is published; if it is empty, connections are closed, and calls
// fail with the reason.
//
// # etcd
//
// DiscoverEtcd finds the endpoints of an etcd cluster by its _etcd-client-ssl._tcp and
// _etcd-client._tcp records.
package dns
