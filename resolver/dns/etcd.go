package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// EtcdConfig says how the endpoints of an etcd cluster are discovered.
type EtcdConfig struct {
	// Config says how names are looked up: Server, Interval, MinInterval, Timeout and Resolver
	// are used. The zero value is right.
	Config

	// ServiceName is the suffix that clusters of the same domain are told apart by, what
	// etcdctl calls --discovery-srv-name: with "blue" the records are
	// _etcd-client-ssl-blue._tcp and _etcd-client-blue._tcp.
	ServiceName string

	// SecureOnly leaves plaintext endpoints out, as etcdctl --insecure-discovery=false does.
	// The client should have the domain as its TLS server name then: whoever can forge
	// records can also forge the names of endpoints, but not a certificate for the domain.
	SecureOnly bool
}

// EndpointSetter is a client whose endpoints can be replaced, like *clientv3.Client.
type EndpointSetter interface {
	SetEndpoints(endpoints ...string)
}

// The services of etcd's clients (go.etcd.io/etcd/client/pkg/v3/srv).
const (
	etcdSecure    = "etcd-client-ssl"
	etcdPlaintext = "etcd-client"
)

// DiscoverEtcd looks the endpoints of an etcd cluster up, once: an https URL for each record
// of _etcd-client-ssl._tcp below the domain, and an http URL for each of _etcd-client._tcp.
// They are sorted: https first, then by priority and name. The names in them are as in the
// records, with a dot at the end, so that no search domain is put behind them.
//
// If one of the two lookups fails, as opposed to finding that there are no records, so does
// the discovery, unlike the official client's: a client that may use TLS does not turn to
// plaintext because of a timeout. The error says what is wrong with the configuration, or
// what happened; for one that holds a *net.DNSError with IsNotFound, there are no endpoints.
func DiscoverEtcd(ctx context.Context, domain string, cfg EtcdConfig) ([]string, error) {
	d, err := newDiscovery(domain, cfg)
	if err != nil {
		return nil, err
	}
	found, err := d.lookup(ctx)
	if err != nil {
		return nil, err
	}
	return found.endpoints, nil
}

// FollowEtcd looks the endpoints up at once and then again and again, see Config.Interval,
// and sets those of the client: the first time, and whenever they have changed. While they
// cannot be looked up, or there are none, the client keeps what it has, and the reason is
// logged once. It returns when ctx ends, with its error, or at once if the configuration is
// wrong.
//
// A client that calls Sync, or has Config.AutoSyncInterval set, replaces its endpoints by
// those that the members advertise; use one or the other.
func FollowEtcd(ctx context.Context, domain string, cfg EtcdConfig, client EndpointSetter) error {
	d, err := newDiscovery(domain, cfg)
	if err != nil {
		return err
	}
	if client == nil {
		return errors.New("dns: there is no client to set endpoints of")
	}
	return d.follow(ctx, client)
}

// discovery is that of one cluster.
type discovery struct {
	*client
	domain     string
	suffix     string // of the services' names
	secureOnly bool
}

type discovered struct {
	endpoints []string
	ttl       time.Duration
}

func newDiscovery(domain string, cfg EtcdConfig) (*discovery, error) {
	c, err := newClient(cfg.Config)
	if err != nil {
		return nil, err
	}
	if err := checkName(domain); err != nil {
		return nil, fmt.Errorf("dns: domain of the etcd cluster: %w", err)
	}
	d := &discovery{client: c, domain: domain, secureOnly: cfg.SecureOnly}
	if cfg.ServiceName != "" {
		if err := checkName(cfg.ServiceName); err != nil || strings.Contains(cfg.ServiceName, ".") {
			return nil, fmt.Errorf("dns: EtcdConfig.ServiceName is %q; it has to be letters, digits and '-'", cfg.ServiceName)
		}
		d.suffix = "-" + cfg.ServiceName
	}
	return d, nil
}

// lookup finds at least one endpoint, or returns an error.
func (d *discovery) lookup(ctx context.Context) (discovered, error) {
	found := discovered{ttl: unknownTTL}
	var nothing error
	kinds := []struct{ service, scheme string }{{etcdSecure, "https"}, {etcdPlaintext, "http"}}
	if d.secureOnly {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		l := d.newLookup(d.server)
		records, err := l.records(ctx, kind.service+d.suffix, "tcp", d.domain, "")
		q := question{server: d.server, name: "_" + kind.service + d.suffix + "._tcp." + d.domain, srv: true}
		switch {
		case ctx.Err() != nil:
			return discovered{}, ctx.Err()
		case isNone(err):
			nothing = both(nothing, &lookupError{explain(q, d.Timeout, err), err})
			continue
		case err != nil:
			return discovered{}, &lookupError{explain(q, d.Timeout, err), err}
		}
		found.ttl = min(found.ttl, l.seen.validity())
		found.endpoints = append(found.endpoints, urls(kind.scheme, records)...)
	}
	if len(found.endpoints) == 0 {
		return discovered{}, nothing
	}
	return found, nil
}

// lookupError is an error of package net with a better text.
type lookupError struct {
	text  string
	cause error
}

func (e *lookupError) Error() string { return "dns: " + e.text }
func (e *lookupError) Unwrap() error { return e.cause }

// both returns one error for two, of which the first may be nil.
func both(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w; %w", a, b)
}

func urls(scheme string, records []*net.SRV) []string {
	list := make([]backend, len(records))
	for i, r := range records {
		list[i] = backend{host: strings.ToLower(r.Target), port: r.Port, SRV: SRV{Priority: r.Priority}}
	}
	slices.SortFunc(list, backend.compare)
	all := make([]string, len(list))
	for i, b := range list {
		all[i] = scheme + "://" + net.JoinHostPort(b.host, strconv.Itoa(int(b.port)))
	}
	return slices.Compact(all)
}

func (d *discovery) follow(ctx context.Context, client EndpointSetter) error {
	var set []string
	var problem error
	failed := 0
	for {
		found, err := d.lookup(ctx)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if problem != nil {
				logger.Infof("dns: the etcd endpoints of %q are looked up again", d.domain)
			}
			if !slices.Equal(found.endpoints, set) {
				set = found.endpoints
				client.SetEndpoints(slices.Clone(set)...)
			}
			failed, wait = 0, d.schedule().afterAnswer(found.ttl)
		default:
			if problem == nil {
				logger.Warningf("%v (the client keeps the endpoints that it has)", err)
			}
			failed++
			wait = d.schedule().afterFailure(failed)
		}
		problem = err
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}
