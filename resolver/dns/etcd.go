package dns

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
)

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
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			q := question{server: c.server, name: "_" + service + "._tcp." + domain, srv: true}
			err = &lookupError{explain(q, err), err}
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
