// Package registration_test has services find each other through real etcd with resolver/etcd,
// while they come, go and die, and while etcd is away.
package registration_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/resolver/etcd"
)

// cluster has one member, which most tests share.
var cluster *lab.Cluster

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(serveEnv); endpoint != "" {
		os.Exit(serveUntilKilled(endpoint))
	}
	labtest.Main(m, func(c *lab.Cluster) { cluster = c })
}

// connect returns a client that reaches the member through its link.
func connect(t *testing.T) *clientv3.Client {
	return labtest.Client(t, clientv3.Config{Endpoints: []string{cluster.Members()[0].Endpoint()}})
}

// connectPastTheLink returns a client for what happens behind the back of the others.
func connectPastTheLink(t *testing.T) *clientv3.Client {
	return labtest.Client(t, clientv3.Config{Endpoints: []string{cluster.Members()[0].DirectEndpoint()}})
}

// cut cuts the shared link until the returned function heals it, or the test ends.
func cut(t *testing.T) (heal func()) {
	t.Helper()
	link := cluster.ClientLink(cluster.Members()[0])
	link.Cut()
	t.Cleanup(link.Heal)
	return link.Heal
}

func register(t *testing.T, client *clientv3.Client, reg etcd.Registration) *etcd.Registrar {
	t.Helper()
	r, err := etcd.Register(labtest.Context(t), client, reg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), labtest.Patience)
		defer cancel()
		_ = r.Withdraw(ctx) // a test that closes the client has no use for the answer
	})
	return r
}

// observed returns a registration whose events go to the channel.
func observed(service, addr string) (etcd.Registration, <-chan etcd.Event) {
	events := make(chan etcd.Event, 100)
	return etcd.Registration{Service: service, Address: addr, Notify: func(e etcd.Event) { events <- e }}, events
}

// expect returns the next event, which must be of the state.
func expect(t *testing.T, events <-chan etcd.Event, state etcd.State) etcd.Event {
	t.Helper()
	select {
	case e := <-events:
		require.Equal(t, state, e.State, "%v", e.Err)
		return e
	case <-labtest.Context(t).Done():
		require.Fail(t, "no event", "waiting for %v", state)
		return etcd.Event{}
	}
}

func quiet(endpoints ...string) clientv3.Config {
	return clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
}
