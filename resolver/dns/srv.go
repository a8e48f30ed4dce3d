package dns

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// atOnce is how many targets of SRV records are looked up concurrently. None are if the DNS server
// sends their addresses with the records.
const atOnce = 8

// preference is the priority and weight of an SRV record (RFC 2782).
type preference struct {
	priority uint16 // best if lowest
	weight   uint16 // the share of calls within a priority, relative to other weights
}

// targets returns a backend for each SRV record whose target has addresses, and the error of one whose lookup failed.
func (l *lookup) targets(ctx context.Context, server string, records []*net.SRV, before []backend) (answer, error) {
	known := map[string][]netip.Addr{}
	for _, b := range before {
		known[b.host] = b.addrs
	}
	found := map[string]addresses{}
	missing := map[string]bool{}
	for _, r := range records {
		host := strings.ToLower(r.Target)
		if glue := l.glue(host); len(glue.all) > 0 && containsAll(glue.all, known[host]) {
			found[host] = glue
		} else {
			missing[host] = true
		}
	}
	failure := l.hosts(ctx, server, missing, known, found)
	a := answer{ttl: l.seen.validity()}
	for _, r := range records {
		host := strings.ToLower(r.Target)
		of := found[host]
		a.ttl = min(a.ttl, of.ttl)
		if len(of.all) == 0 {
			continue
		}
		// The order does not depend on whether the server sent the addresses or they were looked
		// up.
		slices.SortFunc(of.all, netip.Addr.Compare)
		a.backends = append(a.backends, backend{
			addrs: of.all, host: host, port: r.Port, preference: preference{priority: r.Priority, weight: r.Weight},
		})
	}
	slices.SortFunc(a.backends, backend.compare)
	var merged []backend // several records of one target are one endpoint with their weights together
	for _, b := range slices.CompactFunc(a.backends, backend.equal) {
		if last := len(merged) - 1; last >= 0 && merged[last].key() == b.key() && merged[last].priority == b.priority {
			merged[last].weight += min(b.weight, math.MaxUint16-merged[last].weight)
			continue
		}
		merged = append(merged, b)
	}
	a.backends = merged
	return a, failure
}

// glue returns the addresses that were sent with the SRV records. The server omits what does not
// fit into the message, so an omitted target may exist.
func (l *lookup) glue(host string) addresses {
	a := newAddresses(slices.DeleteFunc(slices.Clone(l.seen.glue[host]), func(a netip.Addr) bool {
		return l.Family.network() != "ip" && familyOf(a) != l.Family
	}))
	a.ttl = unknownTTL // the recorder has the TTL
	return a
}

func containsAll(all, some []netip.Addr) bool {
	return !slices.ContainsFunc(some, func(a netip.Addr) bool { return !slices.Contains(all, a) })
}

// hosts looks up the addresses of hosts and puts them into found. If there are too many for the timeout, those without known
// addresses have precedence over the others, which are in random order. A host keeps its known addresses of a family whose
// lookup fails. A failure is returned rather than the error of a host without addresses.
func (l *lookup) hosts(ctx context.Context, server string, hosts map[string]bool, known map[string][]netip.Addr, found map[string]addresses) error {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	var (
		mu     sync.Mutex
		worst  error
		wg     sync.WaitGroup
		places = make(chan struct{}, atOnce)
	)
	for _, host := range slices.SortedFunc(maps.Keys(hosts), func(a, b string) int {
		return cmp.Compare(min(len(known[a]), 1), min(len(known[b]), 1))
	}) {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			a, err := l.newLookup(server).host(ctx, host, "")
			if glue := l.glue(host); isNotFound(err) && len(glue.all) > 0 {
				a, err = glue, nil // it exists
			}
			mu.Lock()
			defer mu.Unlock()
			kept := slices.DeleteFunc(slices.Clone(known[host]), func(x netip.Addr) bool { return err == nil && familyOf(x) != a.missing })
			if len(kept) > 0 && !isNotFound(err) {
				a.all, err = newAddresses(append(a.all, kept...)).all, nil
			}
			found[host] = a
			if err != nil && (worst == nil || isNotFound(worst)) {
				worst = fmt.Errorf("target of an SRV record: %w", err)
			}
		})
	}
	wg.Wait()
	return worst
}

// EtcdConfig configures the discovery of an etcd cluster.
type EtcdConfig struct {
	// Config configures the lookups: Server, Timeout and Resolver are used.
	// The zero value is suitable.
	Config

	// ServiceName is a suffix that distinguishes clusters of the same domain, etcdctl's
	// --discovery-srv-name: with "blue" the records are _etcd-client-ssl-blue._tcp and
	// _etcd-client-blue._tcp.
	ServiceName string

	// SecureOnly excludes plaintext endpoints, as etcdctl --insecure-discovery=false does. Give the
	// client grpc.WithAuthority(domain) in Config.DialOptions, and the members a certificate for the
	// domain: an attacker who forges records can forge the names of endpoints, but has no certificate
	// for the domain. The ServerName of Config.TLS does not help: it has no effect.
	SecureOnly bool
}

// The services of etcd's clients (go.etcd.io/etcd/client/pkg/v3/srv).
const (
	etcdSecure    = "etcd-client-ssl"
	etcdPlaintext = "etcd-client"
)

// DiscoverEtcd looks up the endpoints of an etcd cluster once: an https URL for each record of
// _etcd-client-ssl._tcp below the domain, and an http URL for each of _etcd-client._tcp. They are
// sorted: https first, then by priority and name. The names are those of the records with a dot at
// the end, so that no search domain is appended.
//
// If either lookup fails, other than with "no records", the discovery fails, unlike the official
// client's: a client that may use TLS must not use plaintext because of a timeout. The error
// describes the invalid configuration or the failure; if it wraps a *net.DNSError with IsNotFound,
// there are no endpoints.
func DiscoverEtcd(ctx context.Context, domain string, cfg EtcdConfig) ([]string, error) {
	c, err := newClient(cfg.Config)
	if err != nil {
		return nil, err
	}
	if err := checkName(domain); err != nil {
		return nil, fmt.Errorf("dns: domain of the etcd cluster: %w", err)
	}
	suffix := ""
	if cfg.ServiceName != "" {
		if err := checkName(cfg.ServiceName); err != nil || strings.Contains(cfg.ServiceName, ".") {
			return nil, fmt.Errorf("dns: EtcdConfig.ServiceName is %q; it has to be letters, digits and '-'", cfg.ServiceName)
		}
		suffix = "-" + cfg.ServiceName
	}
	kinds := []struct{ service, scheme string }{{etcdSecure, "https"}, {etcdPlaintext, "http"}}
	if cfg.SecureOnly {
		kinds = kinds[:1]
	}
	var endpoints []string
	var none error
	for _, kind := range kinds {
		service := kind.service + suffix
		records, err := c.newLookup(c.server).records(ctx, service, "tcp", domain, "")
		if err != nil {
			q := question{server: c.server, name: "_" + service + "._tcp." + domain, srv: true}
			err = &lookupError{explain(q, err), err}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			if !isNotFound(err) {
				return nil, err
			}
			none = both(none, err)
			continue
		}
		endpoints = append(endpoints, urls(kind.scheme, records)...)
	}
	if len(endpoints) == 0 {
		return nil, none
	}
	return endpoints, nil
}

// lookupError replaces the text of an error of package net.
type lookupError struct {
	text  string
	cause error
}

func (e *lookupError) Error() string { return "dns: " + e.text }
func (e *lookupError) Unwrap() error { return e.cause }

// both joins two errors, of which the first may be nil.
func both(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w; %w", a, b)
}

func urls(scheme string, records []*net.SRV) []string {
	list := make([]backend, len(records))
	for i, r := range records {
		list[i] = backend{host: strings.ToLower(r.Target), port: r.Port, preference: preference{priority: r.Priority}}
	}
	slices.SortFunc(list, backend.compare)
	all := make([]string, len(list))
	for i, b := range list {
		all[i] = scheme + "://" + hostPort(b.host, b.port)
	}
	return slices.Compact(all)
}
