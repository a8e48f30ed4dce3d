package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"time"
)

const (
	// DefaultInterval is how often a name is looked up. Kubernetes gives the records of its
	// services a TTL of 5 s by default, so that asking more often shows nothing new.
	DefaultInterval = 5 * time.Second

	// DefaultMinInterval is the least time between two lookups of a name. It bounds what an
	// unreachable backend makes of a DNS server's load, since gRPC asks for a lookup whenever
	// a connection is lost or cannot be made.
	DefaultMinInterval = time.Second

	// DefaultTimeout bounds a lookup: resolv.conf(5) waits 5 s for one server.
	DefaultTimeout = 5 * time.Second

	// DefaultEmptyAnswers is how many answers in a row must say that there is nothing before
	// a list of backends is given up for it.
	DefaultEmptyAnswers = 3

	// leastInterval keeps a mistaken unit from becoming a flood.
	leastInterval = 10 * time.Millisecond

	defaultScheme     = "dns"
	defaultPort       = 443 // gRPC's
	defaultServerPort = 53
)

// Family says which addresses of a name are used.
type Family uint8

const (
	// FamilyAuto takes one family of a name that has several addresses of both, as each
	// backend behind it usually has one of either and would be connected to twice: the family
	// of the address that the system prefers (RFC 6724: it has a route, then IPv6 before IPv4,
	// but IPv4 before unique local IPv6). A name with one address of each, and the target of
	// an SRV record, is one backend with all of its addresses.
	FamilyAuto Family = iota
	// FamilyIPv4 asks for A records only.
	FamilyIPv4
	// FamilyIPv6 asks for AAAA records only.
	FamilyIPv6
	// FamilyBoth takes every address of a name as a backend of its own, for names behind which
	// some backends have only IPv4 and others only IPv6. It is FamilyAuto for SRV records.
	FamilyBoth
)

// String returns the name of f.
func (f Family) String() string {
	switch f {
	case FamilyIPv4:
		return "IPv4"
	case FamilyIPv6:
		return "IPv6"
	case FamilyBoth:
		return "both"
	default:
		return "auto"
	}
}

// network is what package net calls f.
func (f Family) network() string {
	switch f {
	case FamilyIPv4:
		return "ip4"
	case FamilyIPv6:
		return "ip6"
	default:
		return "ip"
	}
}

// familyOf returns FamilyIPv4 or FamilyIPv6.
func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return FamilyIPv4
	}
	return FamilyIPv6
}

// Resolver looks names up. A *net.Resolver is one; it should have StrictErrors set, without
// which it takes half an answer for a whole one.
//
// Both methods must return when ctx ends. An error that is, or wraps, a *net.DNSError with
// IsNotFound says that there is no such name or record; any other error says that nothing is
// known.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// Config says how names are looked up. The zero value is right for headless services of
// Kubernetes and for most others.
type Config struct {
	// Scheme is that of the targets. Default "dns", which takes the place of gRPC's own
	// resolver in the channels that are given the Builder, and in no others.
	Scheme string

	// Server is the DNS server that is asked, "host" or "host:port" with 53 as the default
	// port, for targets that name none. Default: those of the system's resolv.conf(5).
	Server string

	// Interval is the longest time between two lookups of a name, and the time between them
	// unless the answer's TTL is shorter. It is shortened at random by up to a tenth, and up to
	// half the first time, so that processes that start together do not ask together. Default
	// 5 s, at least 10 ms.
	//
	// A TTL that is longer does not make it longer, since a new backend is to be seen within
	// one interval: the question costs a caching server little. To save it, make Interval
	// longer; then the TTL decides.
	Interval time.Duration

	// MinInterval is the shortest time between two lookups of a name, whatever the TTL, and
	// however often gRPC asks for one. After a failure it is the first delay, which doubles up
	// to Interval, but not beyond 30 s. Default 1 s, or Interval if that is shorter.
	MinInterval time.Duration

	// Timeout bounds a lookup; a query to one server is given up after a third of it, even if
	// resolv.conf(5) allows more, so that the second and third server get their turn. SRV
	// records and the addresses of their targets have this time each. Default 5 s.
	Timeout time.Duration

	// EmptyAnswers is how many answers in a row have to say that a name does not exist, or has
	// no addresses, before the backends that are known are dropped. A DNS server that is just
	// starting may say so of everything. A service that was scaled to zero is meanwhile asked
	// for more often, as its connections are lost. Default 3. With 1, every answer is believed;
	// the first answer always is.
	EmptyAnswers int

	// Family says which addresses are used. Default FamilyAuto.
	Family Family

	// Backups has backends of all SRV priorities published, the best first, instead of only
	// the best that have addresses. It suits policies that take the first that works, like
	// pick_first; others would send calls to backups all the time.
	Backups bool

	// Resolver answers all lookups; Server and targets that name a server are refused then.
	// TTLs are not known. Default: Go's own resolver, which reads resolv.conf(5) and hosts(5);
	// on Windows, macOS, iOS, Android and Plan 9, whose name services it does not know, it is
	// net.DefaultResolver unless there is a Server.
	Resolver Resolver
}

// validScheme is RFC 3986's, in lower case, as gRPC compares it.
var validScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// validate returns what is wrong with c, after withDefaults.
func (c Config) validate() error {
	if !validScheme.MatchString(c.Scheme) {
		return fmt.Errorf("dns: Config.Scheme is %q; it has to begin with a lower-case letter, followed by those, digits, '+', '-' or '.'", c.Scheme)
	}
	if c.Server != "" {
		if c.Resolver != nil {
			return fmt.Errorf("dns: Config.Server (%q) and Config.Resolver exclude each other; remove one", c.Server)
		}
		if _, err := parseServer(c.Server); err != nil {
			return fmt.Errorf("dns: Config.Server: %w", err)
		}
	}
	switch {
	case c.Interval < leastInterval:
		return fmt.Errorf("dns: Config.Interval is %v; it has to be at least %v, or 0 for %v", c.Interval, leastInterval, DefaultInterval)
	case c.MinInterval < leastInterval || c.MinInterval > c.Interval:
		return fmt.Errorf("dns: Config.MinInterval is %v; it has to be at least %v and at most Interval (%v), or 0 for %v",
			c.MinInterval, leastInterval, c.Interval, DefaultMinInterval)
	case c.Timeout < leastInterval:
		return fmt.Errorf("dns: Config.Timeout is %v; it has to be at least %v, or 0 for %v", c.Timeout, leastInterval, DefaultTimeout)
	case c.EmptyAnswers < 1:
		return fmt.Errorf("dns: Config.EmptyAnswers is %d; it has to be positive, or 0 for %d", c.EmptyAnswers, DefaultEmptyAnswers)
	case c.Family > FamilyBoth:
		return fmt.Errorf("dns: Config.Family is %d, which is none of the package's constants", c.Family)
	}
	return nil
}

// withDefaults returns c with what is zero filled in.
func (c Config) withDefaults() Config {
	if c.Scheme == "" {
		c.Scheme = defaultScheme
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.MinInterval == 0 {
		c.MinInterval = min(DefaultMinInterval, c.Interval)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.EmptyAnswers == 0 {
		c.EmptyAnswers = DefaultEmptyAnswers
	}
	return c
}
