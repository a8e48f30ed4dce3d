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
func newDNS(arrived *log) (*source, error) {
	server, err := nameserver.New("")
	if err != nil {
		return nil, err
	}
	server.OnQuery(arrived.add)
	server.SendAdditionals()
	behaviour := func(name string, m nameserver.Behaviour) sourceFault {
		return sourceFault{
			name: name, changeable: true,
			begin: func() error { server.SetBehaviour(m); return nil },
			end:   func() error { server.SetBehaviour(nameserver.WellBehaved); return nil },
		}
	}
	s := &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, []string, error) {
			b, err := dns.NewBuilder(dns.Config{
				Server: server.Addr, Interval: lookupInterval, MinInterval: lookupFloor, Timeout: lookupTimeout,
				MassRemovalDelay: removalDelay, RotationWindow: -1,
			})
			return b, []string{fmt.Sprintf("dns:///%s:%d", domain, port), "dns:///_grpc._tcp." + domain}, err
		},
		list: func(addresses []string) { listRecords(server, addresses) },
		faults: []sourceFault{
			behaviour("silent", nameserver.Silent), behaviour("servfail", nameserver.Failing), behaviour("refused", nameserver.Refusing),
			behaviour("foreign-answers", nameserver.Foreign), behaviour("slow", nameserver.Slow), behaviour("truncated", nameserver.Truncated),
			{name: "restarted", changeable: true, begin: server.Stop, end: server.Restart},
		},
		// A query on its way is lost with the server, and then there is the longest time to the next:
		// SRV records and addresses have the timeout each.
		extraTime: 2*lookupTimeout + lookupInterval*11/10,
		close:     server.Close,
	}
	// So that the name exists without an address, which is another answer than that there is no such name.
	return s, server.Put(domain+" TXT", "1 exists")
}

// listRecords has a server name backends.
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
