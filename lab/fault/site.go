package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/lab/link"
)

// Site is the cluster that a fault happens to, and how clients reach it.
type Site uint8

// The sites of faults.
const (
	// Direct leads clients to the members' endpoints.
	Direct Site = iota
	// Named leads them to DNS names, one for each member. Linux only.
	Named
	// OneEndpoint leads them to the link of the first member, which may pass connections to another one.
	OneEndpoint
	// ClientCertificates is Direct with members that demand client certificates.
	ClientCertificates
)

// SiteOf returns the site of faults, and an error if they need several.
func SiteOf(faults []Fault) (Site, error) {
	for _, f := range faults {
		if f.Site != faults[0].Site {
			return 0, fmt.Errorf("the faults %s and %s need different clusters: name them in different runs", faults[0].Name, f.Name)
		}
	}
	if len(faults) == 0 {
		return Direct, nil
	}
	return faults[0].Site, nil
}

// Config returns the configuration of a cluster for the site.
func (s Site) Config(cfg lab.Config) lab.Config {
	if s == ClientCertificates {
		cfg.TLS, cfg.ClientCertAuth = true, true
	}
	return cfg
}

// Front is how clients reach a cluster.
type Front struct {
	// Endpoints of the clients.
	Endpoints []string

	behind int // OneEndpoint: the member that connections are passed to

	names  *nameserver.Server
	others []*link.Link // Named: the other addresses of the members
	moved  bool         // to them
}

// Open leads clients to a cluster. The front must be closed after its clients. A front of
// Named replaces the resolver of the process while it is open.
func (s Site) Open(c *lab.Cluster) (*Front, error) {
	f := &Front{Endpoints: c.Endpoints()}
	switch s {
	case Named:
		if err := fatal.Catch(func() { f.openNames(c) }); err != nil {
			return nil, errors.Join(fmt.Errorf("lead clients to the cluster: %w", err), f.Close())
		}
	case OneEndpoint:
		f.Endpoints = f.Endpoints[:1]
	case Direct, ClientCertificates:
	}
	return f, nil
}

// openNames gives each member a name, and a second address with the port of its link.
func (f *Front) openNames(c *lab.Cluster) {
	f.names = nameserver.New("")
	for i, m := range c.Members() {
		host, port, _ := net.SplitHostPort(c.ClientLink(m).Addr()) // an address has both
		f.others = append(f.others, fatal.OK(link.ListenAt("127.0.0.2:"+port, addressOf(m))))
		f.Endpoints[i] = "http://" + nameOf(m) + ":" + port
		f.names.Set(nameOf(m)+". A", "1 "+host)
	}
	server := f.names.Addr
	net.DefaultResolver.PreferGo = true
	net.DefaultResolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}
}

// addressOf returns where a member itself listens.
func addressOf(m *lab.Member) string { return strings.TrimPrefix(m.DirectEndpoint(), "http://") }

func nameOf(m *lab.Member) string { return m.Name() + ".quorate.test" }

// move makes the names lead to the other addresses, and silences the previous ones.
func move(_ context.Context, s Scene) {
	f := s.Front
	for i, m := range s.Cluster.Members() {
		from, to := s.Cluster.ClientLink(m), f.others[i]
		if f.moved {
			from, to = to, from
		}
		from.Blackhole(link.Both)
		to.Heal()
		host, _, _ := net.SplitHostPort(to.Addr())
		f.names.Set(nameOf(m)+". A", "1 "+host)
	}
	f.moved = !f.moved
}

// freezeBehind stops the member behind the only endpoint, and makes new connections reach another one.
func freezeBehind(_ context.Context, s Scene) {
	members := s.Cluster.Members()
	m := members[s.Front.behind]
	s.Front.behind = (s.Front.behind + 1) % len(members)
	s.Cluster.ClientLink(members[0]).SetTarget(addressOf(members[s.Front.behind]))
	s.Note(m.Name() + ", behind the endpoint, is stopped")
	fatal.If(m.Stop())
}

// Close ends what the front made.
func (f *Front) Close() error {
	var errs []error
	if f.names != nil {
		net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = false, nil
		errs = append(errs, f.names.Close())
	}
	for _, l := range f.others {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
