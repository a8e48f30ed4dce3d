package channel

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
)

var errRefused = errors.New("connection refused")

// fakeNet is a network in which names have addresses, and addresses a behaviour.
type fakeNet struct {
	ips     []string
	refuses map[string]bool
	after   map[string]time.Duration // until it answers; missing ones never do

	mu     sync.Mutex
	dialed []string
	closed int
}

type fakeConn struct {
	net.Conn
	n    *fakeNet
	addr string
}

func (c fakeConn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.n.closed++
	return nil
}

func (n *fakeNet) dialer() dialer {
	return dialer{lookup: n.lookup, connect: n.connect}
}

func (n *fakeNet) lookup(_ context.Context, host string) ([]net.IPAddr, error) {
	if host != "etcd.example" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	addrs := make([]net.IPAddr, 0, len(n.ips))
	for _, ip := range n.ips {
		addrs = append(addrs, net.IPAddr{IP: net.ParseIP(ip)})
	}
	return addrs, nil
}

func (n *fakeNet) connect(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, network+" "+address)
	n.mu.Unlock()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if n.refuses[host] {
		return nil, errRefused
	}
	wait, answers := n.after[host]
	if !answers {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(wait) // it answers even if the dial was canceled
	return fakeConn{n: n, addr: address}, nil
}

// If the first addresses of a name do not answer, the next ones are tried.
func TestEveryAddressOfANameIsTried(t *testing.T) {
	for name, tc := range map[string]struct {
		net    *fakeNet
		want   string
		within time.Duration
	}{
		"two addresses do not answer": {
			&fakeNet{ips: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, after: map[string]time.Duration{"10.0.0.3": 0}},
			"10.0.0.3:2379", 2 * attemptDelay,
		},
		"the next address follows a refusal at once": {
			&fakeNet{
				ips: []string{"10.0.0.1", "10.0.0.2"}, after: map[string]time.Duration{"10.0.0.2": 0},
				refuses: map[string]bool{"10.0.0.1": true},
			},
			"10.0.0.2:2379", 0,
		},
		"a slow address may still win": {
			&fakeNet{ips: []string{"10.0.0.1", "10.0.0.2"}, after: map[string]time.Duration{"10.0.0.1": 2 * attemptDelay}},
			"10.0.0.1:2379", 2 * attemptDelay,
		},
		"the families alternate": {
			&fakeNet{
				ips:   []string{"fd00::1", "fd00::2", "10.0.0.1"},
				after: map[string]time.Duration{"10.0.0.1": 0},
			},
			"10.0.0.1:2379", attemptDelay,
		},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			start := time.Now()
			conn := must(tc.net.dialer().dial(t.Context(), "etcd.example:2379"))
			assert.Equal(t, tc.want, conn.(fakeConn).addr)
			assert.Equal(t, tc.within, time.Since(start))
		})
	}
}

func TestLosingConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{
			ips:   []string{"10.0.0.1", "10.0.0.2"},
			after: map[string]time.Duration{"10.0.0.1": time.Minute, "10.0.0.2": 0},
		}
		conn := must(n.dialer().dial(t.Context(), "etcd.example:2379"))
		assert.Equal(t, "10.0.0.2:2379", conn.(fakeConn).addr)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, n.closed)
	})
}

func TestDialErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := &fakeNet{ips: []string{"10.0.0.1", "10.0.0.2"}, refuses: map[string]bool{"10.0.0.1": true, "10.0.0.2": true}}
		_, err := refusing.dialer().dial(t.Context(), "etcd.example:2379")
		require.ErrorIs(t, err, errRefused)
		assert.ErrorContains(t, err, "cannot connect to any of the 2 addresses of etcd.example")

		_, err = refusing.dialer().dial(t.Context(), "nowhere.example:2379")
		assert.EqualError(t, err, "dial tcp: lookup nowhere.example: no such host")

		_, err = (&fakeNet{}).dialer().dial(t.Context(), "etcd.example:2379")
		assert.ErrorContains(t, err, "no addresses")

		_, err = (&fakeNet{ips: []string{"10.0.0.1"}}).dialer().dial(grpctest.Within(t, time.Second), "etcd.example:2379")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestOnlyNamesAreLookedUp(t *testing.T) {
	n := new(fakeNet)
	for _, address := range []string{"10.0.0.1:2379", "[fd00::1%eth0]:2379", ":2379", "unix:a.sock", "etcd.example"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := n.dialer().dial(ctx, address)
		require.Error(t, err)
	}
	assert.Equal(t, []string{"tcp 10.0.0.1:2379", "tcp [fd00::1%eth0]:2379", "tcp :2379", "unix a.sock", "tcp etcd.example"}, n.dialed)
}

// A network outage of 10 s ends no connection; one of 20 s does.
func TestKernelTimersAreABackstop(t *testing.T) {
	const blip, givenUp = 10 * time.Second, 20 * time.Second
	assert.Greater(t, (keepAliveCount-1)*keepAliveInterval, blip, "the probes span the outage")
	assert.Equal(t, givenUp, keepAliveIdle+keepAliveCount*keepAliveInterval)
	assert.Equal(t, givenUp, userTimeout)
}
