package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

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
	// OneEndpoint leads them to a TCP proxy, which passes connections to one member.
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

	members []*lab.Member
	links   []*link.Link // to be closed
	behind  int          // OneEndpoint: the member that connections are passed to

	names     *nameserver.Server
	addresses [2][]*link.Link // Named: of each member, two
	current   int             // of the two
}

// Open leads clients to a cluster. The front must be closed after its clients. A front of
// Named replaces the resolver of the process while it is open.
func (s Site) Open(c *lab.Cluster) (*Front, error) {
	f := &Front{Endpoints: c.Endpoints(), members: c.Members()}
	var err error
	switch s {
	case Named:
		err = f.openNames()
	case OneEndpoint:
		err = f.openOne()
	case Direct, ClientCertificates:
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lead clients to the cluster: %w", err), f.Close())
	}
	return f, nil
}

func (f *Front) openOne() error {
	l, err := f.listen("127.0.0.1:0", f.members[0])
	if err != nil {
		return err
	}
	f.Endpoints = []string{"http://" + l.Addr()}
	return nil
}

// openNames gives each member a name and two addresses with the same port.
func (f *Front) openNames() error {
	var err error
	if f.names, err = nameserver.New(""); err != nil {
		return err
	}
	f.Endpoints = nil
	for i, m := range f.members {
		old, err := f.listen(addressOf(0, i)+":0", m)
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(old.Addr()) // an address has a port
		next, err := f.listen(addressOf(1, i)+":"+port, m)
		if err != nil {
			return err
		}
		f.addresses[0], f.addresses[1] = append(f.addresses[0], old), append(f.addresses[1], next)
		f.Endpoints = append(f.Endpoints, "http://"+nameOf(m)+":"+port)
	}
	server := f.names.Addr
	net.DefaultResolver.PreferGo = true
	net.DefaultResolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}
	return f.publish()
}

func (f *Front) listen(address string, m *lab.Member) (*link.Link, error) {
	l, err := link.ListenAt(address, strings.TrimPrefix(m.Endpoint(), "http://"))
	if err == nil {
		f.links = append(f.links, l)
	}
	return l, err
}

func addressOf(set, member int) string { return fmt.Sprintf("127.0.%d.%d", set+1, member+1) }

func nameOf(m *lab.Member) string { return m.Name() + ".quorate.test" }

// publish makes the names lead to the current addresses.
func (f *Front) publish() error {
	var err error
	for i, m := range f.members {
		err = errors.Join(err, f.names.Put(nameOf(m)+". A", "1 "+addressOf(f.current, i)))
	}
	return err
}

// move makes the names lead to the other addresses, and silences the previous ones.
func (f *Front) move() error {
	for _, l := range f.addresses[f.current] {
		l.Blackhole(link.Both)
	}
	f.current = 1 - f.current
	for _, l := range f.addresses[f.current] {
		l.Heal()
	}
	return f.publish()
}

// pass makes new connections reach another member, and returns the previous one.
func (f *Front) pass() *lab.Member {
	before := f.members[f.behind]
	f.behind = (f.behind + 1) % len(f.members)
	f.links[0].SetTarget(strings.TrimPrefix(f.members[f.behind].Endpoint(), "http://"))
	return before
}

// heal makes the addresses that the names no longer lead to refuse connections.
func (f *Front) heal() {
	if f == nil || f.names == nil {
		return
	}
	for _, l := range f.addresses[1-f.current] {
		l.Cut()
	}
}

// Close ends what the front made.
func (f *Front) Close() error {
	var errs []error
	if f.names != nil {
		net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = false, nil
		errs = append(errs, f.names.Close())
	}
	for _, l := range f.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
