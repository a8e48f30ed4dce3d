package dns

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"
)

// serversTried is how many servers are usually queried within a lookup's timeout: the maximum that
// resolv.conf(5) may name.
const serversTried = 3

// goKnowsNames reports whether Go's own resolver finds the same names as the system's. Elsewhere
// package net uses the system's.
func goKnowsNames() bool {
	switch runtime.GOOS {
	case "windows", "darwin", "ios", "android", "plan9", "js", "wasip1":
		return false
	}
	return true
}

var errPassedOver = errors.New("the DNS server does not answer, and another one does")

// resolverFor returns the resolver for a question, and a recorder, which records nothing if the
// messages are not visible. They serve one lookup, because package net shares messages between
// concurrent lookups of the same name by one resolver.
func (c *client) resolverFor(server string) (Resolver, *recorder) {
	r := newRecorder()
	switch {
	case c.Resolver != nil:
		return c.Resolver, r
	case server == "" && !goKnowsNames():
		return net.DefaultResolver, r
	}
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server != "" {
				address = server
			}
			return c.dial(ctx, network, address, r)
		},
	}, r
}

// dial returns a connection for one query.
func (c *client) dial(ctx context.Context, network, address string, r *recorder) (net.Conn, error) {
	server := network + " " + address
	if c.servers.passOver(server) {
		return nil, errPassedOver
	}
	began := time.Now()
	deadline := began.Add(c.servers.perServer(c.Timeout))
	conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, network, address)
	if err != nil {
		if timedOut(err) {
			c.servers.wasSilent(server)
		}
		return nil, err
	}
	recorded := &recordedConn{Conn: conn, recorder: r, servers: &c.servers, server: server, deadline: deadline, soon: began.Add(c.Timeout / serversTried)}
	// Package net sets ctx's deadline, but would wait for it when the lookup is canceled.
	recorded.release = context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			_ = conn.Close()
		}
	})
	if packets, ok := conn.(net.PacketConn); ok {
		recorded.packets = true
		return recordedPackets{recorded, packets}, nil
	}
	return recorded, nil
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// recordedConn carries one query and its reply.
type recordedConn struct {
	net.Conn
	recorder *recorder
	servers  *servers
	server   string
	deadline time.Time // the maximum
	soon     time.Time // an answer after it is slow
	release  func() bool
	query    query
	pending  []byte // unread bytes of a reply over TCP, after its two length bytes
	packets  bool
}

// SetDeadline limits t to what one server may take.
func (c *recordedConn) SetDeadline(t time.Time) error {
	if t.IsZero() || t.After(c.deadline) {
		t = c.deadline
	}
	return c.Conn.SetDeadline(t)
}

func (c *recordedConn) Write(b []byte) (int, error) {
	message := b
	if !c.packets && len(b) >= 2 {
		message = b[2:]
	}
	c.query = c.recorder.sending(message)
	return c.Conn.Write(b)
}

func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	message := b[:n]
	if !c.packets {
		c.pending = append(c.pending, message...)
		if len(c.pending) < 2 || len(c.pending) < 2+int(binary.BigEndian.Uint16(c.pending)) {
			message = nil
		} else {
			message = c.pending[2:]
		}
	}
	switch {
	case len(message) > 0 && c.recorder.observe(c.query, message):
		c.servers.answered(c.server, time.Now().Before(c.soon))
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.servers.wasSilent(c.server)
	}
	return n, err
}

func (c *recordedConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// recordedPackets is a recordedConn for packets. Package net expects a net.PacketConn then.
type recordedPackets struct {
	*recordedConn
	packets
}

// packets has what a net.PacketConn has and a net.Conn has not.
type packets interface {
	ReadFrom(b []byte) (int, net.Addr, error)
	WriteTo(b []byte, addr net.Addr) (int, error)
}

// backend is the target of one connection.
type backend struct {
	addrs []netip.Addr
	// The fields below are from an SRV record.
	host string
	port uint16
	preference
}

func (b backend) equal(o backend) bool {
	return b.host == o.host && b.port == o.port && b.preference == o.preference && slices.Equal(b.addrs, o.addrs)
}

func (b backend) compare(o backend) int {
	return cmp.Or(
		cmp.Compare(b.priority, o.priority),
		cmp.Compare(b.host, o.host),
		cmp.Compare(b.port, o.port),
		slices.CompareFunc(b.addrs, o.addrs, netip.Addr.Compare),
		cmp.Compare(b.weight, o.weight),
	)
}

// answer is the result of a lookup, in a stable order.
type answer struct {
	backends []backend
	ttl      time.Duration // of an empty answer if there are no backends; unknownTTL if unknown
	// missing is the family whose addresses could not be looked up, FamilyAuto if none.
	missing Family
	name    string // as in known
	moved   bool   // the name that was known before has no records now
	// incomplete is why backends may be missing: the lookup of a target failed, and no address of it is known.
	incomplete string
}

// addresses holds the addresses of one host.
type addresses struct {
	all     []netip.Addr // those of the preferred family first
	missing Family
	ttl     time.Duration
}

// newAddresses sorts the addresses. The system's preference between the families stays. Its order
// within a family depends on the other addresses, and would make all clients on a host prefer the
// same backend.
func newAddresses(found []netip.Addr) addresses {
	all := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		all = append(all, a.Unmap())
	}
	slices.SortFunc(all, netip.Addr.Compare) // IPv4 first
	if n := slices.IndexFunc(all, netip.Addr.Is6); n > 0 && found[0].Unmap().Is6() {
		all = slices.Concat(all[n:], all[:n])
	}
	return addresses{all: slices.Compact(all)}
}

// backends groups addresses into backends, see FamilyAuto.
func (a addresses) backends(f Family) []backend {
	if len(a.all) == 0 {
		return nil
	}
	first := familyOf(a.all[0])
	others := slices.IndexFunc(a.all, func(x netip.Addr) bool { return familyOf(x) != first })
	used := a.all
	if f == FamilyAuto && others >= 0 {
		if others == 1 && len(a.all) == 2 {
			return []backend{{addrs: a.all}}
		}
		used = a.all[:others]
	}
	list := make([]backend, len(used))
	for i, addr := range used {
		list[i] = backend{addrs: []netip.Addr{addr}}
	}
	slices.SortFunc(list, backend.compare)
	return list
}

// highestPriority returns the backends of the best priority of a list sorted by priority.
func highestPriority(list []backend) []backend {
	worse := slices.IndexFunc(list, func(b backend) bool { return b.priority != list[0].priority })
	if worse < 0 {
		return list
	}
	return list[:worse]
}
