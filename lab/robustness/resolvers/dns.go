package resolvers

import (
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/resolver/dns"
)

const (
	lookupInterval = 500 * time.Millisecond
	lookupFloor    = 100 * time.Millisecond
	lookupTimeout  = time.Second
	domain         = "soak.test."
)

// newDNS returns a DNS server with the backends as addresses of a name, and as SRV records.
func newDNS(t *trial) *source {
	server := fatal.OK(nameserver.New(""))
	t.env.Cleanup(server.Close)
	server.OnQuery(t.arrived.add)
	server.SendAdditionals()
	// The name exists without an address, so the answer is then an empty one and not NXDOMAIN.
	fatal.If(server.Put(domain+" TXT", "1 exists"))
	behaving := func(name string, behaviour nameserver.Behaviour) sourceFault {
		end := func() { server.SetBehaviour(nameserver.WellBehaved) }
		return sourceFault{name: name, begin: func() { server.SetBehaviour(behaviour) }, end: end}
	}
	return &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, []string, error) {
			b, err := dns.NewBuilder(dns.Config{
				Server: server.Addr, Interval: lookupInterval, MinInterval: lookupFloor, Timeout: lookupTimeout,
				MassRemovalDelay: removalDelay, RotationWindow: -1,
			})
			return b, []string{fmt.Sprintf("dns:///%s:%d", domain, port), "dns:///_grpc._tcp." + domain}, err
		},
		list: func(addresses []string) { listRecords(server, addresses) },
		faults: []sourceFault{
			behaving("silent", nameserver.Silent), behaving("servfail", nameserver.Failing), behaving("refused", nameserver.Refusing),
			behaving("foreign-answers", nameserver.Foreign), behaving("slow", nameserver.Slow), behaving("truncated", nameserver.Truncated),
			{name: "restarted", begin: func() { fatal.If(server.Stop()) }, end: func() { fatal.If(server.Restart()) }},
		},
		// A query on its way is lost with the server, and the next one follows after the longest
		// interval. SRV records and addresses take a timeout each.
		extraTime: 2*lookupTimeout + lookupInterval*11/10,
	}
}

// listRecords makes a server list backends.
func listRecords(server *nameserver.Server, addresses []string) {
	all, services := make([]string, 0, len(addresses)), make([]string, 0, len(addresses))
	for _, address := range addresses {
		ip, _, err := net.SplitHostPort(address)
		fatal.If(err)
		target := strings.ReplaceAll(ip, ".", "-") + "." + domain
		fatal.If(server.Put(target+" A", "1 "+ip))
		all = append(all, "0 "+ip)
		services = append(services, fmt.Sprintf("0 0 1 %d %s", port, target))
	}
	fatal.If(server.Put("_grpc._tcp."+domain+" SRV", services...))
	fatal.If(server.Put(domain+" A", all...))
}
