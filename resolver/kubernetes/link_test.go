package kubernetes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"
	"k8s.io/client-go/rest"
)

func TestOwnDialer(t *testing.T) {
	server := startServer(t)
	create(t, server, slice("users", "a", 80, "10.0.0.1"))
	config := server.RESTConfig()
	var dialled atomic.Int32
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	c := openWith(t, Config{REST: config}, quick(), "kubernetes:///users.shop")
	c.awaitAddresses(t, "10.0.0.1:80")
	assert.Positive(t, dialled.Load())
}

func TestOwnTransport(t *testing.T) {
	server := startServer(t)
	create(t, server, slice("users", "a", 80, "10.0.0.1"))
	tlsConfig, err := rest.TLSConfigFor(server.RESTConfig())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	b := newTestBuilder(t, Config{REST: &rest.Config{Host: server.URL(), Transport: transport}}, quick())
	c := newChannel()
	r, err := b.Build(target(t, "kubernetes:///users.shop"), c, resolver.BuildOptions{})
	require.NoError(t, err)
	c.awaitAddresses(t, "10.0.0.1:80")
	server.BreakConnections()
	update(t, server, slice("users", "a", 80, "10.0.0.2"))
	c.awaitAddresses(t, "10.0.0.2:80")
	r.Close()
	require.Eventually(t, func() bool { return server.Watches() == 0 }, patience, tick)
}

func TestOwnSettingsThatWouldEndWatches(t *testing.T) {
	server := startServer(t)
	create(t, server, slice("users", "a", 80, "10.0.0.1"))
	config := server.RESTConfig()
	config.Timeout = 1 // nanosecond
	c := openWith(t, Config{REST: config}, quick(), "kubernetes:///users.shop")
	c.awaitAddresses(t, "10.0.0.1:80")
	_, errs := c.counts()
	assert.Zero(t, errs)
}

func TestLinkIsRenewed(t *testing.T) {
	server := startServer(t)
	l, err := newLinks(server.RESTConfig(), quick())
	require.NoError(t, err)
	one, err := l.acquire()
	require.NoError(t, err)
	two, err := l.acquire()
	require.NoError(t, err)
	assert.Same(t, one, two)
	l.retire(one)
	three, err := l.acquire()
	require.NoError(t, err)
	assert.NotSame(t, one, three)
	l.retire(one) // again, by its other user: no effect
	assert.Same(t, three, l.current)
	l.release(one)
	l.release(two)
	assert.Error(t, two.ctx.Err(), "closed with its last user")
	assert.NoError(t, three.ctx.Err())
	l.release(three)
	assert.Nil(t, l.current)
}

func TestLinkThatIsClosed(t *testing.T) {
	server := startServer(t)
	address := server.URL()[len("https://"):]
	k := newLink(nil)
	conn, err := k.dial(t.Context(), "tcp", address)
	require.NoError(t, err)
	k.close()
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, net.ErrClosed)
	assert.Error(t, conn.Close())
	_, err = k.dial(t.Context(), "tcp", address)
	// The connection may exist before the link notices that it is closed.
	assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, errLinkClosed), "%v", err)
}
