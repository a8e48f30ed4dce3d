package etcd_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
	gresolver "google.golang.org/grpc/resolver"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/resolver/etcd"
)

// grpcLog collects the lines of gRPC's log.
var grpcLog journal

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(&grpcLog, &grpcLog, &grpcLog))
	goleak.VerifyTestMain(m)
}

// journal collects what is written to it.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// lines returns this package's lines about a service. A line may be written to the logs of
// several severities.
func (j *journal) lines(service string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for line := range strings.Lines(j.text.String()) {
		_, text, ours := strings.Cut(line, "[quorate-etcd] ")
		if ours && strings.Contains(text, fmt.Sprintf("service %q", service)) && !slices.Contains(lines, text) {
			lines = append(lines, text)
		}
	}
	return lines
}

// patience is far longer than any wait of these tests.
const (
	patience = time.Minute
	// poll is the pause between two checks of a condition.
	poll = time.Millisecond
)

// start runs a cluster of two members over one store. The client knows only the first one, so that
// a test can stop it and write through the other.
func start(t *testing.T) (cluster *fakeetcd.Cluster, client, other *clientv3.Client) {
	t.Helper()
	cluster, err := fakeetcd.Start(2)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster, connect(t, cluster, 0), connect(t, cluster, 1)
}

func connect(t *testing.T, cluster *fakeetcd.Cluster, member int) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{cluster.Member(member).Endpoint()}, DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// within returns a context that ends long after the test should.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// register registers an address under each name; an empty address removes the name.
func register(t *testing.T, client *clientv3.Client, service string, addrs map[string]string) {
	t.Helper()
	m, err := endpoints.NewManager(client, service)
	require.NoError(t, err)
	var updates []*endpoints.UpdateWithOpts
	for name, addr := range addrs {
		key := service + "/" + name
		if addr == "" {
			updates = append(updates, endpoints.NewDeleteUpdateOpts(key))
			continue
		}
		updates = append(updates, endpoints.NewAddUpdateOpts(key, endpoints.Endpoint{Addr: addr}))
	}
	require.NoError(t, m.Update(within(t), updates))
}

// channel is the gRPC channel of a resolver.
type channel struct {
	gresolver.ClientConn
	states    chan []string // the addresses of each update
	errs      chan error
	endpoints chan []gresolver.Endpoint // those of each update

	mu     sync.Mutex
	before func() // called before an update is recorded
	calls  int
}

func newChannel() *channel {
	return &channel{
		states: make(chan []string, 1000), errs: make(chan error, 1000), endpoints: make(chan []gresolver.Endpoint, 1000),
	}
}

func (c *channel) enter() {
	c.mu.Lock()
	before := c.before
	c.calls++
	c.mu.Unlock()
	if before != nil {
		before()
	}
}

func (c *channel) UpdateState(s gresolver.State) error {
	c.enter()
	addrs := []string{}
	for _, e := range s.Endpoints {
		for _, a := range e.Addresses {
			addrs = append(addrs, a.Addr)
		}
	}
	c.states <- addrs
	c.endpoints <- s.Endpoints
	return nil
}

func (c *channel) ReportError(err error) {
	c.enter()
	c.errs <- err
}

// state returns the addresses of the next update.
func (c *channel) state(t *testing.T) []string {
	t.Helper()
	select {
	case addrs := <-c.states:
		return addrs
	case <-time.After(patience):
		require.Fail(t, "the channel is not updated")
		return nil
	}
}

// failure returns the next error.
func (c *channel) failure(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.errs:
		return err
	case <-time.After(patience):
		require.Fail(t, "the channel gets no error")
		return nil
	}
}

// parse parses a target like grpc.NewClient.
func parse(t *testing.T, target string) gresolver.Target {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	return gresolver.Target{URL: *u}
}

// unhurried is for tests in which a stall of the machine must not look like an outage. Tests of
// outages run in virtual time instead.
var unhurried = etcd.Config{ReportAfter: time.Hour, MassRemovalDelay: -1}

// resolve builds a resolver that is closed at the end of the test.
func resolve(t *testing.T, client *clientv3.Client, target string, c *channel) gresolver.Resolver {
	t.Helper()
	return resolveWith(t, client, unhurried, target, c)
}

func resolveWith(t *testing.T, client *clientv3.Client, cfg etcd.Config, target string, c *channel) gresolver.Resolver {
	t.Helper()
	b, err := etcd.NewBuilder(client, cfg)
	require.NoError(t, err)
	r, err := b.Build(parse(t, target), c, gresolver.BuildOptions{})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}
