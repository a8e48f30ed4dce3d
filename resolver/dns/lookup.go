package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// notFound returns the error of a lookup without records.
func notFound(name, kind string) error {
	return &net.DNSError{Err: "no " + kind + " records", Name: name, IsNotFound: true}
}

func isNotFound(err error) bool {
	d, ok := errors.AsType[*net.DNSError](err)
	return ok && d.IsNotFound
}

// client looks up names for one Builder, or for DiscoverEtcd.
type client struct {
	Config
	server  string // of Config.Server, as an address
	servers servers
}

// newClient returns the error of an invalid field of cfg.
func newClient(cfg Config) (*client, error) {
	c := &client{Config: cfg.withDefaults()}
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Server != "" {
		c.server, _ = parseServer(c.Server) // valid, see validate
	}
	return c, nil
}

// lookup is one lookup: of a host, or of SRV records.
type lookup struct {
	*client
	began    time.Time
	resolver Resolver
	recorder *recorder
	seen     *seen // set afterwards
}

func (c *client) newLookup(server string) *lookup {
	l := &lookup{client: c, began: time.Now()}
	l.resolver, l.recorder = c.resolverFor(server)
	return l
}

// known is the result of the previous lookup.
type known struct {
	name     string // that had the records, with its search domain; "" if unknown
	backends []backend
}

// ask answers a question. An answer has backends; without any, isNotFound holds for the error, and the
// answer has the TTL.
func (c *client) ask(ctx context.Context, q question, before known) (answer, error) {
	l := c.newLookup(q.server)
	var a answer
	var err error
	if q.srv {
		a, err = l.services(ctx, q, before)
	} else {
		var found addresses
		found, err = l.host(ctx, q.name, before.name)
		a = answer{backends: found.backends(c.Family), ttl: found.ttl, missing: found.missing}
	}
	a.name, a.moved = l.seen.found, l.seen.hasNoRecords(before.name)
	return a, err
}

// services looks up SRV records and the addresses of their targets.
func (l *lookup) services(ctx context.Context, q question, before known) (answer, error) {
	records, err := l.records(ctx, "", "", q.name, before.name)
	if err != nil {
		return answer{ttl: l.seen.validity()}, err
	}
	a, err := l.targets(ctx, q.server, records, before.backends)
	switch {
	case len(a.backends) == 0:
		return a, err
	case err != nil && !isNotFound(err):
		a.incomplete = "dns: " + explain(q, err)
	}
	if !l.Backups {
		a.backends = highestPriority(a.backends)
	}
	return a, nil
}

// host looks up the addresses of a name; before is the previous result.
func (l *lookup) host(ctx context.Context, name, before string) (addresses, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	found, err := l.resolver.LookupNetIP(ctx, l.Family.network(), name)
	if err == nil && len(found) == 0 {
		err = notFound(name, "address")
	}
	if err = l.verify(err, before); err != nil {
		return addresses{ttl: l.seen.validity()}, err
	}
	a := newAddresses(found)
	a.missing, a.ttl = l.seen.failedFamily(), l.seen.validity()
	return a, nil
}

// records looks up SRV records: of "_service._proto.name", or of name if service and proto are
// empty. It ignores the error of net.LookupSRV for malformed records if there are others.
func (l *lookup) records(ctx context.Context, service, proto, name, before string) ([]*net.SRV, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	_, records, err := l.resolver.LookupSRV(ctx, service, proto, name)
	records = slices.DeleteFunc(records, func(r *net.SRV) bool {
		return r == nil || r.Port == 0 || strings.TrimSuffix(r.Target, ".") == "" // "." says that there is no such service
	})
	switch {
	case len(records) > 0:
		err = nil
	case err == nil:
		err = notFound(name, "usable SRV")
	}
	return records, l.verify(err, before)
}

// verify checks the result of a lookup, whose error may be nil, against its messages. Package net
// skips search domains that did not answer. If the name was found there before, or is not found in
// another, the lookup has failed.
func (l *lookup) verify(err error, before string) error {
	l.seen = l.recorder.end()
	var incomplete error
	switch {
	case isNotFound(err):
		incomplete = l.seen.incomplete("")
	case err == nil && before != "" && before != l.seen.found:
		incomplete = l.seen.incomplete(before)
	}
	if incomplete != nil {
		err = incomplete
	}
	if err != nil && !isNotFound(err) {
		l.servers.forget(l.began)
	}
	return err
}

// explain returns a line that says why a lookup failed. It omits what changes with each attempt,
// such as the source port of a query, because an unchanged text is not reported again.
func explain(q question, err error) string {
	reason, server, name := err.Error(), q.server, ""
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		reason, name, server = d.Err, d.Name, cmp.Or(server, d.Server)
		switch _, to, sent := strings.Cut(d.Err, "->"); {
		case d.IsTimeout:
			reason = "no answer in time"
		case sent: // "read udp SOURCE->SERVER: read: connection refused"
			reason = strings.TrimSpace(to[strings.Index(to, ": ")+1:])
		}
	}
	if server != "" {
		reason += " (DNS server " + server + ")"
	}
	if name != "" && !strings.EqualFold(strings.TrimSuffix(name, "."), strings.TrimSuffix(q.name, ".")) {
		reason = fmt.Sprintf("%q: %s", name, reason) // with a search domain, or the target of an SRV record
	}
	if isNotFound(err) {
		return fmt.Sprintf("%q has no %s: %s", q.name, q.what(), reason)
	}
	return fmt.Sprintf("looking up the %s of %q: %s", q.what(), q.name, reason)
}
