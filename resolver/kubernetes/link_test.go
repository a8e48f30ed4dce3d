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
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestSettingsOfTheUser(t *testing.T) {
	var dials atomic.Int32
	for name, c := range map[string]struct {
		change   func(*rest.Config)
		protocol string
	}{
		"none": {func(*rest.Config) {}, "HTTP/2.0"},
		"a dialer": {func(config *rest.Config) {
			config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			}
		}, "HTTP/2.0"},
		"HTTP/1":                             {func(config *rest.Config) { config.NextProtos = []string{"http/1.1"} }, "HTTP/1.1"},
		"a timeout, which would end watches": {func(config *rest.Config) { config.Timeout = 1 }, "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
			config := server.RESTConfig()
			c.change(config)
			channel := openWith(t, Config{REST: config}, quick(), "kubernetes:///users.shop")
			channel.AwaitAddresses(t, "10.0.0.1:80")
			update(t, server, slice("users", "a", 80, "10.0.0.2"))
			channel.AwaitAddresses(t, "10.0.0.2:80")
			_, errs := channel.Counts()
			assert.Zero(t, errs)
			assert.Equal(t, c.protocol, server.Requests()[0].Protocol)
		})
	}
	assert.Positive(t, dials.Load())
}

func TestOwnTransport(t *testing.T) {
	server := startServer(t, slice("users", "a", 80, "10.0.0.1"))
	tlsConfig, err := rest.TLSConfigFor(server.RESTConfig())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	c, r := grpctest.Resolve(t, newTestBuilder(t, Config{REST: &rest.Config{Host: server.URL(), Transport: transport}}, quick()), "kubernetes:///users.shop")
	c.AwaitAddresses(t, "10.0.0.1:80")
	server.BreakConnections()
	update(t, server, slice("users", "a", 80, "10.0.0.2"))
	c.AwaitAddresses(t, "10.0.0.2:80")
	r.Close()
	require.Eventually(t, func() bool { return server.Watches() == 0 }, testTimeout, tick)
}

// roundTrip is a transport of one function.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRedirects shows which of the URLs that an API server redirects to get the token.
func TestRedirects(t *testing.T) {
	for location, follows := range map[string]bool{
		"https://api/other": true, "https://api:6443/other": true, "https://elsewhere/apis": false, "http://api/apis": false,
	} {
		followed := false
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			followed = r.URL.String() == location
			assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {location}}, Body: http.NoBody, Request: r}, nil
		})
		l, err := newLinks(&rest.Config{Host: "https://api", BearerToken: "secret", Transport: transport}, quick())
		require.NoError(t, err)
		k, err := l.acquire()
		require.NoError(t, err)
		_, err = k.get(t.Context(), serviceKey{"shop", "users"}, nil, testTimeout)
		assert.ErrorContains(t, err, "the API server redirects to")
		assert.Equal(t, follows, followed, location)
		l.release(k, false)
	}
}

func TestLinkIsRenewedAndClosed(t *testing.T) {
	server := startServer(t)
	l, err := newLinks(server.RESTConfig(), quick())
	require.NoError(t, err)
	one, err := l.acquire()
	require.NoError(t, err)
	two, err := l.acquire()
	require.NoError(t, err)
	assert.Same(t, one, two)
	l.release(one, true)
	assert.NoError(t, one.ctx.Err(), "it has another user")
	three, err := l.acquire()
	require.NoError(t, err)
	assert.NotSame(t, one, three)
	l.release(two, true)
	assert.Same(t, three, l.current)
	assert.Error(t, two.ctx.Err(), "closed with its last user")
	assert.NoError(t, three.ctx.Err())
	l.release(three, false)
	assert.Nil(t, l.current)

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
