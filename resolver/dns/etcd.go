package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/pause"
)

// EtcdConfig configures the discovery of an etcd cluster.
type EtcdConfig struct {
	// Config configures the lookups: Server, Interval, MinInterval, Timeout and Resolver are used.
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

// EndpointSetter is a client whose endpoints can be replaced, like *clientv3.Client.
type EndpointSetter interface {
	SetEndpoints(endpoints ...string)
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
	d, err := newDiscovery(domain, cfg)
	if err != nil {
		return nil, err
	}
	endpoints, _, err := d.lookup(ctx)
	return endpoints, err
}

// FollowEtcd looks up the endpoints at once and then periodically, see Config.Interval, and sets
// those of the client: the first time, and whenever they have changed. While the lookup fails, or
// finds none, the client keeps its endpoints, and the reason is logged once. Once all endpoints are
// https URLs, it looks up no plaintext ones: DNS does not move a client from TLS to plaintext. It
// returns when ctx ends, with its error, or at once if the configuration is invalid.
//
// A client that calls Sync, or has Config.AutoSyncInterval set, replaces its endpoints with those
// that the members advertise; use only one of the two.
func FollowEtcd(ctx context.Context, domain string, cfg EtcdConfig, client EndpointSetter) error {
	d, err := newDiscovery(domain, cfg)
	if err != nil {
		return err
	}
	if client == nil {
		return errors.New("dns: the client is nil")
	}
	return d.follow(ctx, client)
}

// discovery looks up one cluster.
type discovery struct {
	*client
	domain     string
	suffix     string // of the services' names
	secureOnly bool
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

// lookup returns at least one endpoint and the TTL of the answers, or an error.
func (d *discovery) lookup(ctx context.Context) (endpoints []string, ttl time.Duration, err error) {
	ttl = unknownTTL
	var none error
	kinds := []struct{ service, scheme string }{{etcdSecure, "https"}, {etcdPlaintext, "http"}}
	if d.secureOnly {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		l, service := d.newLookup(d.server), kind.service+d.suffix
		records, err := l.records(ctx, service, "tcp", d.domain, "")
		if err != nil {
			if ctx.Err() != nil {
				return nil, 0, ctx.Err()
			}
			q := question{server: d.server, name: "_" + service + "._tcp." + d.domain, srv: true}
			err = &lookupError{explain(q, d.Timeout, err), err}
			if !isNotFound(err) {
				return nil, 0, err
			}
			none = both(none, err)
			continue
		}
		ttl = min(ttl, l.seen.validity())
		endpoints = append(endpoints, urls(kind.scheme, records)...)
	}
	if len(endpoints) == 0 {
		return nil, 0, none
	}
	return endpoints, ttl, nil
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
		list[i] = backend{host: strings.ToLower(r.Target), port: r.Port, SRV: SRV{Priority: r.Priority}}
	}
	slices.SortFunc(list, backend.compare)
	all := make([]string, len(list))
	for i, b := range list {
		all[i] = scheme + "://" + hostPort(b.host, b.port)
	}
	return slices.Compact(all)
}

func (d *discovery) follow(ctx context.Context, client EndpointSetter) error {
	var set []string
	var problem error
	failed := 0
	for {
		endpoints, ttl, err := d.lookup(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var wait time.Duration
		if err == nil {
			if problem != nil {
				logger.Infof("dns: the etcd endpoints of %q are looked up again", d.domain)
			}
			if !slices.Equal(endpoints, set) {
				set = endpoints
				client.SetEndpoints(slices.Clone(set)...)
			}
			failed, wait = 0, d.schedule().afterAnswer(ttl)
			d.secureOnly = d.secureOnly || strings.HasPrefix(set[len(set)-1], "https:")
		} else {
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
