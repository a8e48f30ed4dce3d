package resolvers

import (
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/resolver"

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
	server := nameserver.New("")
	t.env.Cleanup(server.Close)
	server.OnQuery(t.arrive)
	// The name exists without an address, so the answer is then an empty one and not NXDOMAIN.
	server.Set(domain+" TXT", "1 exists")
	s := &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, error) {
			return dns.NewBuilder(dns.Config{
				Server: server.Addr, Interval: lookupInterval, MinInterval: lookupFloor, Timeout: lookupTimeout,
				MassRemovalDelay: removalDelay, RotationWindow: -1,
			})
		},
		targets: []string{fmt.Sprintf("dns:///%s:%d", domain, port), "dns:///_grpc._tcp." + domain},
		list: func(addresses []string) {
			all, services := make([]string, 0, len(addresses)), make([]string, 0, len(addresses))
			for _, address := range addresses {
				ip, _, _ := net.SplitHostPort(address) // an address has a port
				target := strings.ReplaceAll(ip, ".", "-") + "." + domain
				server.Set(target+" A", "1 "+ip)
				all = append(all, "0 "+ip)
				services = append(services, fmt.Sprintf("0 0 1 %d %s", port, target))
			}
			server.Set("_grpc._tcp."+domain+" SRV", services...)
			server.Set(domain+" A", all...)
		},
	}
	for _, f := range []struct {
		name string
		is   nameserver.Behaviour
	}{{"silent", nameserver.Silent}, {"servfail", nameserver.Failing}, {"refused", nameserver.Refusing}, {"foreign-answers", nameserver.Foreign}} {
		s.faults = append(s.faults, sourceFault{
			name: f.name, begin: func() { server.SetBehaviour(f.is, ".") }, end: func() { server.SetBehaviour(nameserver.WellBehaved, ".") },
		})
	}
	return s
}
