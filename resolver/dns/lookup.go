package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

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
	seen     *seen // set by verify
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

// ask answers a question: with backends, or with an error. If isNotFound holds for the error, the answer has the TTL.
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

// host looks up the addresses of a name. Those of the previous lookup were found at the name before, see known.
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

// verify checks the result of a lookup, whose error may be nil, against its messages: package net
// skips search domains that did not answer. The lookup has failed if the domain in which the name
// was found before did not answer. A name that no domain has was perhaps in any that did not
// answer, unless it was found before in one that did.
func (l *lookup) verify(err error, before string) error {
	l.seen = l.recorder.end()
	var incomplete error
	switch {
	case isNotFound(err) && !l.seen.hasNoRecords(before):
		incomplete = l.seen.incomplete("")
	case isNotFound(err), err == nil && before != "" && before != l.seen.found:
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

// notFound returns the error of a lookup without records.
func notFound(name, kind string) error {
	return &net.DNSError{Err: "no " + kind + " records", Name: name, IsNotFound: true}
}

func isNotFound(err error) bool {
	d, ok := errors.AsType[*net.DNSError](err)
	return ok && d.IsNotFound
}

// silentFor is how long a DNS server that did not answer is skipped.
const silentFor = 30 * time.Second

// servers records which DNS servers do not answer. Package net begins each query with the first
// server of resolv.conf(5), and sends queries for each search domain: a dead server would cost
// each of them its timeout. A server is identified by network and address.
type servers struct {
	mu        sync.Mutex
	silent    map[string]time.Time // until when it is skipped
	answering string               // the server that answered last
	fewer     int                  // how many servers share the timeout of a lookup; 0 for serversTried
	decided   time.Time            // when fewer was set
}

// perServer returns how much of the timeout of a lookup one server may take.
func (s *servers) perServer(timeout time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return timeout / time.Duration(cmp.Or(s.fewer, serversTried))
}

// passOver reports whether to skip a server: it is silent, and another one answers. After
// silentFor, one query tries it again.
func (s *servers) passOver(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.silent[server]
	if !ok || s.answering == "" || s.answering == server {
		return false
	}
	now := time.Now()
	if now.Before(until) {
		return true
	}
	s.silent[server] = now.Add(silentFor)
	return false
}

// answered records that a server has answered; soon is set if it took no more than its usual share of the timeout.
func (s *servers) answered(server string, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if soon {
		s.fewer = 0
	}
	delete(s.silent, server)
	s.answering = server
}

// wasSilent records that a server has not answered.
func (s *servers) wasSilent(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		s.silent = map[string]time.Time{}
	}
	s.silent[server] = time.Now().Add(silentFor)
	if s.answering == server {
		s.answering = ""
	}
}

// forget makes the next lookup try all servers. It is called after a failed lookup: the servers
// that answered may have been removed from resolv.conf(5). If none answered, they may be slow: in later
// lookups the servers that were asked share all of the timeout. Such a lookup may reach only the first search
// domain, so after a failed one the timeout is shared by serversTried again. Lookups that fail side by side
// count as one.
func (s *servers) forget(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case began.Before(s.decided): // a lookup beside this one has failed
	case s.fewer != 0 || s.answering != "":
		s.fewer, s.decided = 0, time.Now()
	default:
		s.fewer, s.decided = min(len(s.silent), serversTried), time.Now()
	}
	s.silent, s.answering = nil, ""
}
