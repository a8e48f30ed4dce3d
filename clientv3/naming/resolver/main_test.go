package resolver_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/clientv3/naming/resolver"
	"github.com/quorate/quorate/internal/grpctest"
)

// grpcLog has the lines of this package in gRPC's log.
var grpcLog = grpctest.NewLog("quorate-etcd")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// register registers an address under each name; an empty address removes the name.
func register(t *testing.T, client *clientv3.Client, service string, addrs map[string]string) {
	t.Helper()
	m := clienttest.Must(endpoints.NewManager(client, service))
	var updates []*endpoints.UpdateWithOpts
	for name, addr := range addrs {
		key := service + "/" + name
		if addr == "" {
			updates = append(updates, endpoints.NewDeleteUpdateOpts(key))
			continue
		}
		updates = append(updates, endpoints.NewAddUpdateOpts(key, endpoints.Endpoint{Addr: addr}))
	}
	require.NoError(t, m.Update(clienttest.Within(t), updates))
}

// channel is the gRPC channel of a resolver.
type channel struct {
	gresolver.ClientConn
	states chan []gresolver.Endpoint
	errs   chan error
}

func newChannel() *channel {
	return &channel{states: make(chan []gresolver.Endpoint, 1000), errs: make(chan error, 1000)}
}

func (c *channel) UpdateState(s gresolver.State) error {
	c.states <- s.Endpoints
	return nil
}

func (c *channel) ReportError(err error) { c.errs <- err }

// state returns the addresses of the next update.
func (c *channel) state(t *testing.T) []string {
	t.Helper()
	addrs := []string{}
	for _, e := range clienttest.Next(t, c.states) {
		for _, a := range e.Addresses {
			addrs = append(addrs, a.Addr)
		}
	}
	return addrs
}

// failure returns the next error.
func (c *channel) failure(t *testing.T) error {
	t.Helper()
	return clienttest.Next(t, c.errs)
}

// noOutageConfig is for tests in which a stall of the machine must not look like an outage. Tests of
// outages run in virtual time instead.
var noOutageConfig = resolver.Config{ReportAfter: time.Hour, MassRemovalDelay: -1}

func newBuilder(t *testing.T, client *clientv3.Client, cfg resolver.Config) gresolver.Builder {
	t.Helper()
	return clienttest.Must(resolver.New(client, cfg))
}

// open builds a resolver of a target, with a channel of its own.
func open(t *testing.T, b gresolver.Builder, target string) (*channel, gresolver.Resolver) {
	t.Helper()
	u := clienttest.Must(url.Parse(target))
	c := newChannel()
	r := clienttest.Must(b.Build(gresolver.Target{URL: *u}, c, gresolver.BuildOptions{}))
	return c, r
}

// resolve returns a channel that follows a target until the end of the test.
func resolve(t *testing.T, client *clientv3.Client, cfg resolver.Config, target string) *channel {
	t.Helper()
	c, r := open(t, newBuilder(t, client, cfg), target)
	t.Cleanup(r.Close)
	return c
}
