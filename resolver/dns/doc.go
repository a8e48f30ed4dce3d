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
// is for channels without the Builder: nothing is registered and no setting is changed. Where a
// framework takes no dial options, resolver.Register(builder) is for all channels of the process.
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
// A name that begins with two labels with underscores is one of SRV records, and takes no
// port; Kubernetes has _port._tcp.service.namespace.svc.cluster.local for each named port of a
// headless service. The authority of the calls, which certificates are checked against, is
// what follows these labels, never a name from a record: records can be forged.
//
// Go's own resolver completes names and looks them up: with the search domains, ndots and servers
// of resolv.conf(5), which it reads again when it changes, and with hosts(5). A server that is silent
// for a third of Config.Timeout is passed over for 30 s while another one answers. A search
// domain that is not answered for is passed over, unless the name was found there before: it may
// be another one's elsewhere. In a pod of Kubernetes, which has "ndots:5" and three
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
// addresses. Of the SRV records, those of the best priority that have addresses are used; with
// Config.Backups all are, and the quorate_* policies fail over to the next priority and back.
// Their weights and priorities are those of package balancer. If the DNS server sends the addresses
// along with the SRV records, as CoreDNS does, one lookup suffices; a target of which it leaves out
// an address that is known, or all, is looked up as well, eight at a time.
//
// Consul, Route 53 and Cloud Map name a part of the backends in each answer. Such answers are
// recognized and united, see Config.RotationWindow.
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
// Lookups end with the last channel of a name, also when it goes idle. One that opens or wakes
// within the interval continues with the answer that there was; later, up to Config.MaxListAge,
// it begins with the last list if the first lookup fails or takes more than 0.3 s, and is told so.
//
// # Faults
//
// While a name cannot be looked up (SERVFAIL, REFUSED, no answer), the last good list stays.
// The channel is told once for each reason, and gRPC's log ("quorate-dns") has one line when
// that begins and one when it ends. Attempts are made after 1, 2, 4 s and then every interval. Without a list,
// calls fail with the reason, unless they wait for ready.
//
// If only the query for IPv4 or for IPv6 addresses fails, the list stays for
// Config.MassRemovalDelay if it has addresses of that family; then, or otherwise, the other
// family's are used.
//
// An answer that a name does not exist, or has no addresses, is believed if there was no list
// before. Otherwise it is doubted, like one that leaves fewer than half of the backends, and like a
// name that is now found in another search domain only: a DNS server that has just started, and
// knows nothing yet, says so too. The backends stay for Config.MassRemovalDelay, 15 s, if the
// answers keep saying so; new ones are used beside them. The price is that a service that was scaled to
// zero keeps failing connections for that long. Then the shorter list is published; if it is
// empty, connections are closed, and calls fail with the reason.
//
// # etcd
//
// DiscoverEtcd and FollowEtcd find the endpoints of an etcd cluster by its _etcd-client-ssl._tcp
// and _etcd-client._tcp records.
package dns
