// Package dns has gRPC channels follow the backends behind a DNS name, of a headless service
// of Kubernetes for instance, by looking it up again and again:
//
//	builder, err := dns.NewBuilder(dns.Config{}) // one for all channels of the program
//	…
//	conn, err := grpc.NewClient("dns:///greeter.prod.svc.cluster.local:50051",
//		grpc.WithResolvers(builder),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`), …)
//
// gRPC's own resolver looks up again only when a connection is lost, and at most every 30 s,
// so that a client does not see new backends for as long as the old ones work. It stays as it
// is for channels without the Builder: nothing is registered and no setting is changed.
//
// # Targets
//
//	dns:///host:port                  the addresses of host (A and AAAA records)
//	dns:///host                       the same, with gRPC's default port, 443
//	dns:///:port                      localhost
//	dns:///10.1.2.3:port              no lookup
//	dns:///[2001:db8::1]:port         no lookup
//	dns:///_grpc._tcp.domain          SRV records: names and ports of backends
//	dns://server/…, dns://server:53/… any of these, asked of one DNS server
//
// A name that begins with two labels with underscores is one of SRV records, and takes no
// port; Kubernetes has _port._tcp.service.namespace.svc.cluster.local for each named port of a
// headless service. The authority of the calls, which certificates are checked against, is
// what follows these labels, never a name from a record: records can be forged.
//
// Names are completed and looked up as Go does it: with the search domains, ndots and servers
// of resolv.conf(5), and with hosts(5). In a pod of Kubernetes, which has "ndots:5" and three
// search domains, it pays to end a full name with a dot, svc.ns.svc.cluster.local.:port: a
// lookup is two queries then instead of eight. Service configs in TXT records are not read.
//
// A bad target does not fail grpc.NewClient but the calls, with a text that says what is wrong.
//
// gRPC does not ask any resolver for a "dns" target that is to be reached through a proxy
// (HTTPS_PROXY): the proxy looks it up. grpc.WithNoProxy, grpc.WithLocalDNSResolution or
// another Config.Scheme prevent that.
//
// # Backends
//
// Each address of a name is a backend. Where a name has both IPv4 and IPv6 addresses, nothing
// says which belong together, and one family is used, see FamilyAuto; one of each is one
// backend with two addresses. The target of an SRV record is one backend with all of its
// addresses. Of the SRV records, those of the best priority that have addresses are used, see
// Config.Backups; their weights are those of package balancer, whose policies heed them. If the
// DNS server sends the addresses along with the SRV records, as CoreDNS does, one lookup
// suffices; otherwise each target is looked up as well, eight at a time.
//
// Backends are sorted. What has not changed is not published again, so that connections to
// backends that stay are left alone.
//
// # Lookups
//
// All channels of one Builder share the lookups of a name: there is one per interval (5 s by
// default), however many channels and ports there are, and one that joins has the last answer
// at once. A TTL that is shorter than the interval is kept to: the next lookup is when the
// answer expires, but at least one second (Config.MinInterval) after the last; a TTL of zero
// says nothing about that. A TTL that is longer does not delay the next lookup. Where gRPC asks for a lookup, because a
// connection was lost, there is one at once, but at most one per MinInterval and name.
//
// Lookups end with the last channel of a name, also when it goes idle. One that wakes within
// the interval continues with the answer that there was.
//
// # Faults
//
// While a name cannot be looked up (SERVFAIL, REFUSED, no answer), the last good list stays.
// The channel is told once for each reason, and gRPC's log ("quorate-dns") has one line when
// that begins and one when it ends. Attempts are made after 1, 2, 4 s and then every interval. Without a list,
// calls fail with the reason, unless they wait for ready.
//
// If only the query for IPv4 or for IPv6 addresses fails, addresses of that family that are
// known stay for three such answers; without any, the others are used.
//
// An answer that a name does not exist, or has no addresses, is believed if there was no list
// before. Otherwise it has to come three times in a row (Config.EmptyAnswers), as a DNS server
// that has just started, and knows nothing yet, says so too; the price is that a service that
// was scaled to zero keeps failing connections for at most three intervals, usually less, since
// each lost connection causes a lookup. Then the empty list is published, connections are
// closed, and calls fail with the reason.
//
// # etcd
//
// DiscoverEtcd and FollowEtcd find the endpoints of an etcd cluster by its _etcd-client-ssl._tcp
// and _etcd-client._tcp records.
package dns
