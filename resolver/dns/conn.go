package dns

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"time"
)

// serversTried is how many servers get their turn within a lookup's timeout. It is as many
// as resolv.conf(5) may name.
const serversTried = 3

// goKnowsNames reports whether Go's own resolver finds what the system's would. Where it
// would not, package net uses the system's.
func goKnowsNames() bool {
	switch runtime.GOOS {
	case "windows", "darwin", "ios", "android", "plan9", "js", "wasip1":
		return false
	}
	return true
}

// resolverFor returns what answers a question, and what is learnt from its messages, nil if
// they are not seen. They serve one lookup: package net lets lookups of the same name by
// one resolver share their messages.
func (c Config) resolverFor(server string) (Resolver, *tap) {
	switch {
	case c.Resolver != nil:
		return c.Resolver, nil
	case server == "" && !goKnowsNames():
		return net.DefaultResolver, nil
	}
	t := newTap()
	patience := c.Timeout / serversTried
	dialer := &net.Dialer{Timeout: patience}
	return &net.Resolver{
		PreferGo: true,
		// Without it, a query for IPv6 addresses that fails would make those known disappear,
		// and one for a search domain that fails would lead to another domain's host.
		StrictErrors: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server != "" {
				address = server
			}
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return tapConn(ctx, conn, t, time.Now().Add(patience)), nil
		},
	}, t
}

// tappedConn carries one query and its reply.
type tappedConn struct {
	net.Conn
	tap      *tap
	deadline time.Time   // the latest
	release  func() bool // of what closes the connection when the lookup is given up
	query    []byte      // without TCP's prefix
	pending  []byte      // what was read of a reply over TCP
	packets  bool
}

// tapConn returns conn with tap on it. Package net expects that what carries packets says
// so by being a net.PacketConn. A lookup that is given up closes it; package net would wait
// for the reply.
func tapConn(ctx context.Context, conn net.Conn, t *tap, deadline time.Time) net.Conn {
	c := &tappedConn{Conn: conn, tap: t, deadline: deadline}
	c.release = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if packets, ok := conn.(net.PacketConn); ok {
		c.packets = true
		return tappedPackets{c, packets}
	}
	return c
}

// SetDeadline keeps to what one server is allowed to take.
func (c *tappedConn) SetDeadline(t time.Time) error {
	if t.IsZero() || t.After(c.deadline) {
		t = c.deadline
	}
	return c.Conn.SetDeadline(t)
}

func (c *tappedConn) Write(b []byte) (int, error) {
	message := b
	if !c.packets && len(b) >= 2 {
		message = b[2:]
	}
	c.query = append([]byte(nil), message...)
	return c.Conn.Write(b)
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case n == 0:
	case c.packets:
		c.tap.observe(c.query, b[:n])
	default:
		c.pending = append(c.pending, b[:n]...)
		c.stream()
	}
	return n, err
}

// stream looks for a whole message in what was read: two bytes are its length.
func (c *tappedConn) stream() {
	for len(c.pending) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(c.pending))
		if len(c.pending) < end {
			return
		}
		c.tap.observe(c.query, c.pending[2:end])
		c.pending = c.pending[end:]
	}
}

func (c *tappedConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// tappedPackets is a tappedConn that carries packets.
type tappedPackets struct {
	*tappedConn
	packets net.PacketConn
}

func (c tappedPackets) ReadFrom(b []byte) (int, net.Addr, error) { return c.packets.ReadFrom(b) }

func (c tappedPackets) WriteTo(b []byte, addr net.Addr) (int, error) {
	return c.packets.WriteTo(b, addr)
}
