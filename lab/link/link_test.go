package link_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/link"
)

// soon bounds what must happen, quiet is how long nothing must happen.
const (
	soon  = 5 * time.Minute
	quiet = 150 * time.Millisecond
)

// server is the target of a link.
type server struct {
	net.Listener
	conns chan net.Conn
}

func newServer(t *testing.T) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{Listener: listener, conns: make(chan net.Conn, 16)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				close(s.conns)
				return
			}
			s.conns <- nc
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		for nc := range s.conns {
			_ = nc.Close()
		}
	})
	return s
}

// accept returns the next connection that reaches the target.
func (s *server) accept(t *testing.T) *net.TCPConn {
	t.Helper()
	select {
	case nc := <-s.conns:
		return owned(t, nc)
	case <-time.After(soon):
		t.Fatal("no connection reached the target")
		return nil
	}
}

func owned(t *testing.T, nc net.Conn) *net.TCPConn {
	t.Helper()
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(soon)))
	return nc.(*net.TCPConn)
}

func newLink(t *testing.T) (*link.Link, *server) {
	t.Helper()
	s := newServer(t)
	l, err := link.Listen(s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l, s
}

func dial(t *testing.T, l *link.Link) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr())
	require.NoError(t, err)
	return owned(t, nc)
}

// pair returns the two ends of a connection through the link.
func pair(t *testing.T, l *link.Link, s *server) (client, target *net.TCPConn) {
	t.Helper()
	client = dial(t, l)
	return client, s.accept(t)
}

func send(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(nc, text)
	require.NoError(t, err)
}

func expect(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(nc, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// expectNothing asserts that neither bytes nor an end arrive for a while.
func expectNothing(t *testing.T, nc net.Conn) {
	t.Helper()
	require.NoError(t, nc.SetReadDeadline(time.Now().Add(quiet)))
	_, err := nc.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the read ended before its deadline")
	require.NoError(t, nc.SetReadDeadline(time.Now().Add(soon)))
}

// expectGone asserts that the connection ends, not merely stays silent.
func expectGone(t *testing.T, nc net.Conn) {
	t.Helper()
	_, err := nc.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection still stands")
}

// expectRefused asserts that a new connection is not served: connecting fails, or
// the connection ends at once.
func expectRefused(t *testing.T, l *link.Link) {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr())
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
		return
	}
	expectGone(t, owned(t, nc))
}

func TestCarriesBothWays(t *testing.T) {
	l, s := newLink(t)
	client, target := pair(t, l, s)
	payload := make([]byte, 4<<20)
	_, _ = rand.Read(payload)

	var both sync.WaitGroup
	for _, ends := range [][2]*net.TCPConn{{client, target}, {target, client}} {
		both.Go(func() {
			_, err := ends[0].Write(payload)
			assert.NoError(t, err)
			assert.NoError(t, ends[0].CloseWrite())
		})
		both.Go(func() {
			got, err := io.ReadAll(ends[1])
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(payload, got), "bytes were changed")
		})
	}
	both.Wait()
	require.Eventually(t, func() bool { return l.Stats().Active == 0 }, soon, time.Millisecond)
	assert.Equal(t, link.Stats{Accepted: 1}, l.Stats())
}

func TestHalfClose(t *testing.T) {
	l, s := newLink(t)
	client, target := pair(t, l, s)
	send(t, client, "question")
	require.NoError(t, client.CloseWrite())
	question, err := io.ReadAll(target)
	require.NoError(t, err)
	assert.Equal(t, "question", string(question))
	send(t, target, "answer")
	expect(t, client, "answer")
}

func TestResetTravels(t *testing.T) {
	l, s := newLink(t)
	client, target := pair(t, l, s)
	require.NoError(t, target.SetLinger(0))
	require.NoError(t, target.Close())
	expectGone(t, client)
	require.Eventually(t, func() bool { return l.Stats().Active == 0 }, soon, time.Millisecond)
}

func TestBlackholeWithholdsAndDelivers(t *testing.T) {
	for _, test := range []struct {
		name               string
		direction          link.Direction
		forward, reverse   bool   // what still passes
		toTarget, toClient string // what passes only after healing
	}{
		{"forward", link.Forward, false, true, "to target", ""},
		{"reverse", link.Reverse, true, false, "", "to client"},
		{"both", link.Both, false, false, "to target", "to client"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, s := newLink(t)
			client, target := pair(t, l, s)
			l.Blackhole(test.direction)
			send(t, client, "to target")
			send(t, target, "to client")
			if test.forward {
				expect(t, target, "to target")
			}
			if test.reverse {
				expect(t, client, "to client")
			}
			expectNothing(t, target)
			expectNothing(t, client)
			l.Heal()
			expect(t, target, test.toTarget)
			expect(t, client, test.toClient)
		})
	}
}

func TestBlackholeWithholdsTheEnd(t *testing.T) {
	l, s := newLink(t)
	client, target := pair(t, l, s)
	l.Blackhole(link.Both)
	send(t, client, "last words")
	require.NoError(t, client.Close())
	expectNothing(t, target)
	l.Heal()
	rest, err := io.ReadAll(target)
	require.NoError(t, err)
	assert.Equal(t, "last words", string(rest))
}

func TestBlackholeHoldsNewConnections(t *testing.T) {
	for name, direction := range map[string]link.Direction{"forward": link.Forward, "reverse": link.Reverse} {
		t.Run(name, func(t *testing.T) {
			l, s := newLink(t)
			l.Blackhole(direction)
			client := dial(t, l)
			send(t, client, "hello")
			select {
			case <-s.conns:
				t.Fatal("a connection passed the blackhole")
			case <-time.After(quiet):
			}
			l.Heal()
			expect(t, s.accept(t), "hello")
		})
	}
}

// TestEndsOfWhatABlackholeHolds ends a connection through a link that lets nothing through, and one that waits to be accepted.
func TestEndsOfWhatABlackholeHolds(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(*link.Link) error
		after func(t *testing.T, l *link.Link, s *server)
	}{
		"cut": {func(l *link.Link) error { l.Cut(); return nil }, func(t *testing.T, l *link.Link, s *server) {
			expectRefused(t, l)
			assert.EqualValues(t, 1, l.Stats().Refused)
			l.Heal()
			client, target := pair(t, l, s)
			send(t, client, "again")
			expect(t, target, "again")
		}},
		"broken": {func(l *link.Link) error { l.Break(); return nil }, func(t *testing.T, l *link.Link, s *server) {
			assert.Equal(t, link.Condition{Blackholed: true}, l.Condition(link.Forward), "it stays so")
			assert.Equal(t, link.Condition{Blackholed: true}, l.Condition(link.Reverse), "it stays so")
			l.Heal()
			pair(t, l, s)
		}},
		"closed": {(*link.Link).Close, func(t *testing.T, l *link.Link, _ *server) {
			assert.Zero(t, l.Stats().Active)
			again, err := net.Listen("tcp", l.Addr())
			require.NoError(t, err, "the port is still held")
			require.NoError(t, again.Close())
			assert.NoError(t, l.Close(), "second close")

			late, other := net.Pipe()
			l.Go(late)
			_, err = other.Read(make([]byte, 1))
			assert.Error(t, err, "a closed link took a connection")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, s := newLink(t)
			client, target := pair(t, l, s)
			l.Blackhole(link.Both)
			send(t, client, "held")
			waiting := dial(t, l)
			require.Eventually(t, func() bool { return l.Stats().Active == 2 }, soon, time.Millisecond)
			require.NoError(t, test.end(l))
			for _, nc := range []net.Conn{client, target, waiting} {
				expectGone(t, nc)
			}
			test.after(t, l, s)
		})
	}
}

func TestDelayIsPerDirection(t *testing.T) {
	const latency = time.Second
	l, s := newLink(t)
	client, target := pair(t, l, s)
	l.Delay(link.Forward, latency)

	start := time.Now()
	send(t, client, "ping")
	expect(t, target, "ping")
	assert.GreaterOrEqual(t, time.Since(start), latency)
	assert.Equal(t, link.Condition{Delay: latency}, l.Condition(link.Forward))
	assert.Equal(t, link.Condition{}, l.Condition(link.Reverse))

	l.Delay(link.Forward, 2*soon)
	send(t, target, "pong")
	expect(t, client, "pong") // in less than the delay of the other direction
}

func TestDelayDoesNotLimitThroughput(t *testing.T) {
	const latency = 300 * time.Millisecond
	l, s := newLink(t)
	client, target := pair(t, l, s)
	l.Delay(link.Both, latency)
	require.NoError(t, target.SetDeadline(time.Now().Add(3*soon)))
	payload := make([]byte, 12<<20) // 384 reads of the link: one after the other they would take 115 s
	start := time.Now()
	var writing sync.WaitGroup
	writing.Go(func() {
		_, err := client.Write(payload)
		assert.NoError(t, err)
	})
	_, err := io.ReadFull(target, make([]byte, len(payload)))
	require.NoError(t, err)
	writing.Wait()
	assert.GreaterOrEqual(t, time.Since(start), latency)
}

func TestSettingsAreKeptApart(t *testing.T) {
	l := link.New("127.0.0.1:1")
	defer func() { assert.NoError(t, l.Close()) }()
	l.Delay(link.Both, time.Second)
	l.Lose(link.Forward, 0.5)
	l.Blackhole(link.Reverse)
	assert.Equal(t, link.Condition{Delay: time.Second, Loss: 0.5}, l.Condition(link.Forward))
	assert.Equal(t, link.Condition{Blackholed: true, Delay: time.Second}, l.Condition(link.Reverse))
	l.Delay(link.Forward, 0)
	l.Lose(link.Forward, 0)
	assert.Equal(t, link.Condition{}, l.Condition(link.Forward))
	l.Heal()
	assert.Equal(t, link.Condition{}, l.Condition(link.Reverse))
	assert.Equal(t, "127.0.0.1:1", l.Target())
}

// TestForget forgets one of two connections.
func TestForget(t *testing.T) {
	l, s := newLink(t)
	client, server := pair(t, l, s)
	pass := func(from, to net.Conn) {
		send(t, from, "ping")
		expect(t, to, "ping")
	}
	pass(client, server)
	pass(server, client)
	require.Len(t, l.Conns(), 1)
	forgotten := l.Conns()[0]
	require.Eventually(t, func() bool { return forgotten.Returned() == 4 }, soon, time.Millisecond, "it is counted when it was written")
	forgotten.Forget()

	other, itsServer := pair(t, l, s)
	for range 2 {
		send(t, client, "lost")
		send(t, server, "lost")
		pass(other, itsServer)
		pass(itsServer, other)
	}
	require.NoError(t, other.Close())
	l.Heal()
	for _, nc := range []net.Conn{client, server} {
		n, err := nc.Read(make([]byte, 1))
		assert.Zero(t, n, "what was lost is not delivered")
		assert.Error(t, err)
		assert.NotErrorIs(t, err, net.ErrClosed)
	}
}

func TestNothingListens(t *testing.T) {
	l, s := newLink(t)
	require.NoError(t, s.Close())
	expectRefused(t, l)
	l.SetTarget("")
	expectRefused(t, l)
	require.Eventually(t, func() bool { return l.Stats().Refused == 2 }, soon, time.Millisecond)

	other := newServer(t)
	l.SetTarget(other.Addr().String())
	client, target := pair(t, l, other)
	send(t, client, "found")
	expect(t, target, "found")
}
