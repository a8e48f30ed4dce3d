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

// dnsSource is a DNS server with the backends as addresses of a name, and as SRV records.
type dnsSource struct {
	server *nameserver.Server
	log    log
}

func newDNS() (source, error) {
	server, err := nameserver.New("")
	if err != nil {
		return nil, err
	}
	s := &dnsSource{server: server}
	server.OnQuery(s.log.add)
	server.SendAlong()
	// So that the name exists without an address, which is another answer than that there is no such name.
	return s, server.Put(domain+" TXT", "1 exists")
}

func (s *dnsSource) builder(removalDelay time.Duration) (resolver.Builder, []string, error) {
	b, err := dns.NewBuilder(dns.Config{
		Server: s.server.Addr, Interval: lookupInterval, MinInterval: lookupFloor, Timeout: lookupTimeout,
		MassRemovalDelay: removalDelay, RotationWindow: -1,
	})
	return b, []string{fmt.Sprintf("dns:///%s:%d", domain, port), "dns:///_grpc._tcp." + domain}, err
}

func (s *dnsSource) list(addresses []string) {
	all, services := make([]string, 0, len(addresses)), make([]string, 0, len(addresses))
	for _, address := range addresses {
		ip, _, err := net.SplitHostPort(address)
		fatal.If(err)
		target := strings.ReplaceAll(ip, ".", "-") + "." + domain
		fatal.If(s.server.Put(target+" A", "1 "+ip))
		all = append(all, "0 "+ip)
		services = append(services, fmt.Sprintf("0 0 1 %d %s", port, target))
	}
	fatal.If(s.server.Put("_grpc._tcp."+domain+" SRV", services...))
	fatal.If(s.server.Put(domain+" A", all...))
}

func (s *dnsSource) faults() []disturbance {
	behaviour := func(name string, m nameserver.Behaviour) disturbance {
		return disturbance{
			name: name, open: true,
			begin: func() error { s.server.Be(m); return nil },
			end:   func() error { s.server.Be(nameserver.WellBehaved); return nil },
		}
	}
	return append(falseLists(),
		behaviour("silent", nameserver.Silent), behaviour("servfail", nameserver.Failing), behaviour("refused", nameserver.Refusing),
		behaviour("foreign-answers", nameserver.Foreign), behaviour("slow", nameserver.Slow), behaviour("truncated", nameserver.Truncated),
		disturbance{name: "restarted", open: true, begin: s.server.Stop, end: s.server.Restart},
	)
}

// patience is that a query on its way is lost with the server, and the longest time to the next:
// SRV records and addresses have the timeout each.
func (s *dnsSource) patience() time.Duration { return 2*lookupTimeout + lookupInterval*11/10 }

func (s *dnsSource) arrivals() []time.Time { return s.log.all() }

func (s *dnsSource) close() error { return s.server.Close() }
