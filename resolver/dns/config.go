package dns

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"time"
)

const (
	// DefaultInterval is the default of Config.Interval. Kubernetes gives the records of
	// its services a TTL of 5 s by default, so more frequent lookups gain nothing.
	DefaultInterval = 5 * time.Second

	// DefaultMinInterval is the default of Config.MinInterval. It bounds the DNS load caused
	// by an unreachable backend, since gRPC requests a lookup whenever a connection is lost
	// or fails.
	DefaultMinInterval = time.Second

	// DefaultTimeout bounds a lookup: resolv.conf(5) waits 5 s for one server.
	DefaultTimeout = 5 * time.Second

	// DefaultMassRemovalDelay is three lookups at the default interval.
	DefaultMassRemovalDelay = 15 * time.Second

	// DefaultRotationWindow is 60 answers at the default interval. If each answer has 8 of 24
	// backends, the probability that a backend is missing in all of them is 1 in 10^10; with 3 of
	// 24 it is 1 in 3,000.
	DefaultRotationWindow = 5 * time.Minute

	// DefaultMaxListAge is long enough for channels that go idle after half an hour, as they do
	// by default.
	DefaultMaxListAge = time.Hour

	// leastInterval prevents a flood of queries caused by a wrong unit.
	leastInterval = 10 * time.Millisecond

	defaultScheme     = "dns"
	defaultPort       = 443 // gRPC's
	defaultServerPort = 53
)

// Family selects the address family of backends.
type Family uint8

const (
	// FamilyAuto uses one family if a name has several addresses of both, because a backend
	// usually has an address of each and would be connected to twice: the family of the address
	// that the system prefers (RFC 6724: one with a route, IPv6 before IPv4, IPv4 before unique
	// local IPv6). A name with one address of each family, and the target of an SRV record, is one
	// backend with all of its addresses.
	FamilyAuto Family = iota
	// FamilyIPv4 queries A records only.
	FamilyIPv4
	// FamilyIPv6 queries AAAA records only.
	FamilyIPv6
	// FamilyBoth treats every address of a name as a backend, for names that have backends with
	// only IPv4 and others with only IPv6. For SRV records it equals FamilyAuto.
	FamilyBoth
)

// families has the name of each family, and its name in package net.
var families = [...]struct{ name, network string }{
	FamilyAuto: {"auto", "ip"}, FamilyIPv4: {"IPv4", "ip4"}, FamilyIPv6: {"IPv6", "ip6"}, FamilyBoth: {"both", "ip"},
}

// String returns the name of f.
func (f Family) String() string {
	if f > FamilyBoth {
		f = FamilyAuto
	}
	return families[f].name
}

// network returns the name of the family in package net.
func (f Family) network() string { return families[f].network }

// familyOf returns FamilyIPv4 or FamilyIPv6.
func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return FamilyIPv4
	}
	return FamilyIPv6
}

// Resolver looks names up. A *net.Resolver implements it; set its StrictErrors, without which it
// returns partial answers as complete. (The default Resolver needs no such setting.)
//
// Both methods must return when ctx ends. An error that is, or wraps, a *net.DNSError with
// IsNotFound means that there is no such name or record; any other error means that the
// lookup failed.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// Config configures lookups. The zero value suits headless services of Kubernetes and
// most others.
type Config struct {
	// Scheme is the scheme of targets. Default "dns", which replaces gRPC's own resolver
	// in channels with the Builder only.
	Scheme string

	// Server is the DNS server, "host" or "host:port" with 53 as the default port, for
	// targets that name none. Default: the servers of resolv.conf(5).
	Server string

	// Interval is the longest time between two lookups of a name, and the time between them
	// unless the answer's TTL is shorter. It is shortened at random by up to a tenth, and up to
	// half the first time, so that processes that start together do not query together. Default
	// 5 s, at least 10 ms.
	//
	// A longer TTL does not extend it, so that a new backend is found within one interval;
	// the query costs a caching server little. To save queries, increase Interval; then the
	// TTL decides.
	Interval time.Duration

	// MinInterval is the shortest time between two lookups of a name, whatever the TTL, and
	// however often gRPC asks for one. After a failure it is the first delay, which doubles up
	// to Interval, but not beyond 30 s. Default 1 s, or Interval if that is shorter.
	MinInterval time.Duration

	// Timeout bounds a lookup; a query to one server is given up after a third of it, even if
	// resolv.conf(5) allows more, so that the second and third server get their turn. If none
	// answers, those that there are share the whole Timeout of the next lookup, and of later ones
	// while their answers are slow. SRV records and the addresses of their targets have this time
	// each. Default 5 s.
	Timeout time.Duration

	// MassRemovalDelay is how long backends are kept if so many disappear from the answers at
	// once that fewer than half remain. A DNS server that is just starting may return an empty
	// answer; such an answer counts only once within its TTL (RFC 2308), for at most 5 minutes,
	// because caches repeat it. Time without answers does not count. New backends are used at
	// once. Default 15 s; negative: no delay.
	MassRemovalDelay time.Duration

	// RotationWindow is how long a missing backend is kept if the server returns a part of its
	// list in each answer, as Consul, Route 53 and Cloud Map do. Such a server is recognized by
	// answers with at least 3 backends, the same number as before but not the same backends, some
	// of which return after at most three answers, or three TTLs; until then, missing backends are kept for MassRemovalDelay.
	// The window is at least 30 TTLs. Default 5 minutes; negative: answers are never merged.
	RotationWindow time.Duration

	// MaxListAge is how long the last list of a name is kept after its last channel closed or
	// went idle. The next channel begins with it if the first lookup fails, or takes more than
	// 0.3 s. At most 1,000 names without a channel are kept. Default 1 h; negative: none.
	MaxListAge time.Duration

	// Family selects the address family. Default FamilyAuto.
	Family Family

	// Backups publishes the backends of all SRV priorities, the best first, instead of only the
	// best that have addresses. The quorate_* policies (balancer.SetPriority) and pick_first use
	// the other priorities while no backend of the best one works; other policies would send calls
	// to all.
	Backups bool

	// Resolver answers all lookups; Server, and targets that name a server, are rejected then.
	// TTLs are unknown. Default: Go's own resolver, which reads resolv.conf(5) and hosts(5); on
	// Windows, macOS, iOS, Android and Plan 9, whose name services it does not support, it is
	// net.DefaultResolver unless Server is set.
	Resolver Resolver
}

// validScheme is the syntax of RFC 3986 in lower case, as gRPC compares schemes.
var validScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// validate checks c, with its defaults, and returns the error of the invalid field.
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
	case c.Family > FamilyBoth:
		return fmt.Errorf("dns: Config.Family is %d, which is not a Family of this package", c.Family)
	}
	return nil
}

// withDefaults returns c with defaults for zero fields.
func (c Config) withDefaults() Config {
	c.Scheme = cmp.Or(c.Scheme, defaultScheme)
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.MinInterval = cmp.Or(c.MinInterval, min(DefaultMinInterval, c.Interval))
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MassRemovalDelay = cmp.Or(c.MassRemovalDelay, DefaultMassRemovalDelay)
	c.RotationWindow = cmp.Or(c.RotationWindow, DefaultRotationWindow)
	c.MaxListAge = cmp.Or(c.MaxListAge, DefaultMaxListAge)
	return c
}

// longestRetry bounds the delay after failures if Interval is longer.
const longestRetry = 30 * time.Second

// spread is the delay after the first answer, and after one that gRPC requested: random, between MinInterval or half of
// the usual delay, whichever is longer, and the usual delay. It spreads processes that start together, or lose a backend.
func (c Config) spread(d time.Duration) time.Duration {
	return max(d/2+rand.N(d/2+1), min(c.MinInterval, d))
}

// afterAnswer is the delay after an answer: at most the interval, shortened at random by up to a
// tenth. An answer in a cache does not change before its TTL has passed, so a TTL within the
// interval is waited for, and up to a tenth longer.
//
// A TTL of zero says that the answer must not be cached, not when it will change. It is treated as
// unknown: servers that use it for all records would otherwise be queried continuously.
func (c Config) afterAnswer(ttl time.Duration) time.Duration {
	usual := c.Interval - rand.N(c.Interval/10+1)
	switch {
	case ttl <= 0 || ttl > c.Interval:
		return usual
	case ttl >= usual:
		return ttl
	}
	ttl = max(ttl, c.MinInterval)
	return min(ttl+rand.N(ttl/10+1), c.Interval)
}

// afterFailure is the delay after the nth failure in a row, from 1 on: it begins at MinInterval
// and doubles, plus up to a tenth.
func (c Config) afterFailure(n int) time.Duration {
	longest := min(c.Interval, longestRetry)
	d := c.MinInterval
	for ; n > 1 && d < longest; n-- {
		d *= 2
	}
	d = min(d, longest)
	return d + rand.N(d/10+1)
}

// untilConfirmed is the delay while an answer is doubted and can be confirmed from due on: usual,
// or due if a lookup after usual would put off the confirmation.
func (c Config) untilConfirmed(usual, due time.Duration) time.Duration {
	if usual > due-c.MinInterval {
		return max(due, c.MinInterval)
	}
	return usual
}
