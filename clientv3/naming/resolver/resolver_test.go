package resolver_test

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far longer than any wait of these tests.
const patience = time.Minute

func connect(t *testing.T) *clientv3.Client {
	t.Helper()
	cluster := clienttest.Start(t, 1)
	return clienttest.Connect(t, cluster)
}

// channel is the gRPC channel of a resolver.
type channel struct {
	gresolver.ClientConn
	states chan []gresolver.Endpoint
	errs   chan error
}

func (c channel) UpdateState(s gresolver.State) error {
	c.states <- s.Endpoints
	return nil
}

func (c channel) ReportError(err error) { c.errs <- err }

// state returns the addresses of the next update.
func (c channel) state(t *testing.T) []string {
	t.Helper()
	select {
	case eps := <-c.states:
		addrs := make([]string, len(eps))
		for i, ep := range eps {
			addrs[i] = ep.Addresses[0].Addr
		}
		return addrs
	case <-time.After(patience):
		require.Fail(t, "the channel is not updated")
		return nil
	}
}

// resolve returns a channel that follows a target until the end of the test.
func resolve(t *testing.T, client *clientv3.Client, target string) channel {
	t.Helper()
	b, err := resolver.NewBuilder(client)
	require.NoError(t, err)
	u, err := url.Parse(target)
	require.NoError(t, err)
	c := channel{states: make(chan []gresolver.Endpoint, 100), errs: make(chan error, 100)}
	r, err := b.Build(gresolver.Target{URL: *u}, c, gresolver.BuildOptions{})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return c
}

func register(t *testing.T, client *clientv3.Client, updates ...*endpoints.UpdateWithOpts) {
	t.Helper()
	m, err := endpoints.NewManager(client, "svc")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, m.Update(ctx, updates))
}

func adding(name, addr string) *endpoints.UpdateWithOpts {
	return endpoints.NewAddUpdateOpts("svc/"+name, endpoints.Endpoint{Addr: addr})
}

func TestBuilder(t *testing.T) {
	_, err := resolver.NewBuilder(nil)
	require.ErrorContains(t, err, "client")

	client := connect(t)
	b, err := resolver.NewBuilder(client)
	require.NoError(t, err)
	require.Equal(t, "etcd", b.Scheme())
	_, err = b.Build(gresolver.Target{}, channel{}, gresolver.BuildOptions{})
	require.ErrorContains(t, err, "etcd:///service")
}

func TestNoEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := resolve(t, connect(t), "etcd:///svc")
		require.Empty(t, c.state(t))
		require.ErrorContains(t, <-c.errs, `service "svc": no endpoint is registered`)
	})
}

// Channels that use the first address, as gRPC's do by default, must not all use the same one, and
// a channel keeps its order when endpoints change.
func TestOrderOfAddresses(t *testing.T) {
	client := connect(t)
	register(t, client, adding("a", "1"), adding("b", "2"), adding("c", "3"))
	firsts := map[string]bool{}
	for range 50 { // the probability that one of three is never the first is 3*(2/3)^50, 5 in a billion
		firsts[resolve(t, client, "etcd:///svc").state(t)[0]] = true
	}
	require.Len(t, firsts, 3)

	c := resolve(t, client, "etcd:///svc")
	before := c.state(t)
	for range 5 {
		register(t, client, adding("d", "4"))
		var with []string
		for _, addr := range c.state(t) {
			if addr != "4" {
				with = append(with, addr)
			}
		}
		require.Equal(t, before, with)
		register(t, client, endpoints.NewDeleteUpdateOpts("svc/d"))
		require.Equal(t, before, c.state(t))
	}
}
