package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

var errRefused = errors.New("the DNS server refused to answer")

// none returns the error for what has no records.
func none(name, kind string) error {
	return &net.DNSError{Err: "no " + kind + " records", Name: name, IsNotFound: true}
}

func isNone(err error) bool {
	var d *net.DNSError
	return errors.As(err, &d) && d.IsNotFound
}

// lookup is the lookup of one name.
type lookup struct {
	Config
	resolver Resolver
	tap      *tap
}

func (c Config) newLookup(server string) *lookup {
	l := &lookup{Config: c}
	l.resolver, l.tap = c.resolverFor(server)
	return l
}

// ask answers a question. before is what was found the last time; targets of SRV records
// that cannot be looked up have their addresses from it. An answer has backends; there
// being none is an error for which isNone holds.
func (c Config) ask(ctx context.Context, q question, before []backend) (answer, error) {
	l := c.newLookup(q.server)
	if !q.srv {
		found, err := l.host(ctx, q.name)
		return answer{backends: found.backends(c.Family), ttl: found.ttl, lacks: found.lacks}, err
	}
	records, err := l.records(ctx, "", "", q.name)
	if err != nil {
		return answer{}, err
	}
	found, err := l.targets(ctx, q.server, records, before)
	if err == nil && !c.Backups {
		found.backends = best(found.backends)
	}
	return found, err
}

// host looks the addresses of a name up. If there are addresses of one family, and the query
// for the other one fails, it returns those that there are.
func (l *lookup) host(ctx context.Context, name string) (addresses, error) {
	found, err := l.addrs(ctx, l.Family, name)
	if err == nil {
		return l.addresses(found, FamilyAuto), nil
	}
	only, ok := l.tap.onlyFamily()
	if isNone(err) || !ok || l.Family.network() != "ip" {
		return addresses{}, err
	}
	found, second := l.addrs(ctx, only, name)
	if second != nil {
		return addresses{}, err
	}
	if only == FamilyIPv4 {
		return l.addresses(found, FamilyIPv6), nil
	}
	return l.addresses(found, FamilyIPv4), nil
}

func (l *lookup) addresses(found []netip.Addr, lacks Family) addresses {
	a := newAddresses(found)
	a.lacks, a.ttl = lacks, l.tap.validity()
	return a
}

func (l *lookup) addrs(ctx context.Context, f Family, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	found, err := l.resolver.LookupNetIP(ctx, f.network(), name)
	switch {
	case err == nil && len(found) == 0:
		return nil, none(name, "address")
	case isNone(err) && l.tap.wasRefused():
		return nil, errRefused
	}
	return found, err
}

// records looks SRV records up: of "_service._proto.name", or of name if they are empty.
// Records that net.LookupSRV leaves out as malformed do not spoil the others.
func (l *lookup) records(ctx context.Context, service, proto, name string) ([]*net.SRV, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	_, records, err := l.resolver.LookupSRV(ctx, service, proto, name)
	records = slices.DeleteFunc(records, func(r *net.SRV) bool {
		return r == nil || r.Port == 0 || strings.TrimSuffix(r.Target, ".") == "" // "." says that there is no such service
	})
	switch {
	case len(records) > 0:
		return records, nil
	case err == nil:
		return nil, none(name, "usable SRV")
	case isNone(err) && l.tap.wasRefused():
		return nil, errRefused
	}
	return nil, err
}

// explain says in one line why a lookup failed. What changes from one attempt to the next,
// like the port that a query was sent from, is left out, as a text that stays the same is
// not reported again.
func explain(q question, timeout time.Duration, err error) string {
	what := "addresses"
	if q.srv {
		what = "SRV records"
	}
	reason, server, name := err.Error(), q.server, ""
	var d *net.DNSError
	if errors.As(err, &d) {
		reason, name = d.Err, d.Name
		if server == "" {
			server = d.Server
		}
		if d.IsTimeout {
			reason = fmt.Sprintf("no answer within %v", timeout)
		}
	}
	if server != "" {
		reason += " (DNS server " + server + ")"
	}
	if name != "" && !strings.EqualFold(strings.TrimSuffix(name, "."), strings.TrimSuffix(q.name, ".")) {
		reason = fmt.Sprintf("%q: %s", name, reason) // the target of an SRV record
	}
	if isNone(err) {
		return fmt.Sprintf("%q has no %s: %s", q.name, what, reason)
	}
	return fmt.Sprintf("looking up the %s of %q: %s", what, q.name, reason)
}
