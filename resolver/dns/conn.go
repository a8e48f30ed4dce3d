package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

// serversTried is how many servers are queried within a lookup's timeout: the maximum that
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
	t := newRecorder()
	switch {
	case c.Resolver != nil:
		return c.Resolver, t
	case server == "" && !goKnowsNames():
		return net.DefaultResolver, t
	}
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server != "" {
				address = server
			}
			return c.dial(ctx, network, address, t)
		},
	}, t
}

// dial returns a connection for one query.
func (c *client) dial(ctx context.Context, network, address string, t *recorder) (net.Conn, error) {
	server := network + " " + address
	if c.servers.passOver(server) {
		return nil, errPassedOver
	}
	deadline := time.Now().Add(c.Timeout / serversTried)
	conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, network, address)
	if err != nil {
		if timedOut(err) {
			c.servers.wasSilent(server)
		}
		return nil, err
	}
	recorded := &recordedConn{Conn: conn, recorder: t, servers: &c.servers, server: server, deadline: deadline}
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
		c.servers.answered(c.server)
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
	packets net.PacketConn
}

func (c recordedPackets) ReadFrom(b []byte) (int, net.Addr, error) { return c.packets.ReadFrom(b) }

func (c recordedPackets) WriteTo(b []byte, addr net.Addr) (int, error) {
	return c.packets.WriteTo(b, addr)
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

func (s *servers) answered(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.silent, server)
	s.answering = server
}

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
// that answered may have been removed from resolv.conf(5).
func (s *servers) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent, s.answering = nil, ""
}
