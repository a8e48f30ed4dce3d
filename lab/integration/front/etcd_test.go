package front_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/etcdprobe"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/observe"
)

// proxied is a cluster of three members behind nginx.
type proxied struct {
	cluster *lab.Cluster
	nginx   *nginx
	links   []*link.Link // a link to each address of nginx
}

// startProxied starts a cluster, with a site of the documentation, and replacements, before it.
func startProxied(t *testing.T, name string, replacements ...string) *proxied {
	t.Helper()
	c := labtest.Start(t, lab.Config{})
	for i, m := range c.Members() {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:2379", i+1), c.ClientLink(m).Addr())
	}
	p := &proxied{cluster: c, nginx: startNginx(t, documentedConfig(t, name, replacements...))}
	for _, address := range p.nginx.addresses {
		toNginx, err := link.Listen(address)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, toNginx.Close()) })
		p.links = append(p.links, toNginx)
	}
	return p
}

func (p *proxied) endpoints() []string {
	var endpoints []string
	for _, toNginx := range p.links {
		endpoints = append(endpoints, toNginx.Addr())
	}
	return endpoints
}

// term returns the cluster's.
func (p *proxied) term(t *testing.T) uint64 {
	t.Helper()
	status, err := p.cluster.Members()[0].Status(within(t, testTimeout))
	require.NoError(t, err)
	return status.GetRaftTerm()
}

// connect returns a client, and its observer.
func connect(t *testing.T, strategy string, endpoints ...string) (*clientv3.Client, *recorder) {
	t.Helper()
	w := &recorder{}
	return labtest.Client(t, clientv3.Config{Endpoints: endpoints, Balancer: strategy, Observer: w}), w
}

// recorder observes a client.
type recorder struct {
	observe.None
	resumed atomic.Int64 // how often watches were resumed

	mu     sync.Mutex
	states []health.State // the states that endpoints came to
}

func (w *recorder) StateChanged(c health.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = append(w.states, c.To)
}

func (w *recorder) WatchResumed(observe.WatchResumption) { w.resumed.Add(1) }

func (w *recorder) saw(s health.State) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.states, s)
}

// A watch, a lease, gets and puts live through connections that are replaced all the time,
// streams that are cut, and what happens to nginx and the members behind it.
func TestEtcdBehindNginx(t *testing.T) {
	p := startProxied(t, "etcd.conf",
		"keepalive_requests 1000000;", fmt.Sprintf("keepalive_requests %d;", perConnection),
		"grpc_read_timeout 10s;", "grpc_read_timeout 2s;",
		"grpc_read_timeout 60s;", "grpc_read_timeout 2s;", "client_body_timeout 60s;", "client_body_timeout 2s;",
	)
	client, _ := connect(t, "", p.endpoints()...)
	tr := begin(t, client, ttl)
	term := p.term(t)
	tr.awaitPuts(t, 5*perConnection)
	assert.GreaterOrEqual(t, p.links[0].Stats().Accepted, uint64(5), "connections are replaced")
	for _, err := range tr.putErrors() {
		// A machine that is too slow for its cluster is no fault of the proxy's.
		assert.True(t, p.term(t) != term || strings.Contains(err.Error(), "504"), "a put whose outcome is unknown, without a fault: %v", err)
	}

	// New workers take over from the old ones, which end when their connections do, or when their time to shut down is over.
	require.NoError(t, p.nginx.process.Signal(syscall.SIGHUP))
	tr.awaitPuts(t, 3*perConnection)
	p.nginx.stop(t)
	p.nginx.start(t)
	tr.awaitPuts(t, perConnection)

	killed, frozen := p.cluster.Members()[0], p.cluster.Members()[1]
	require.NoError(t, killed.Kill())
	tr.awaitPuts(t, perConnection)
	require.NoError(t, killed.Restart(within(t, testTimeout)))
	require.NoError(t, p.cluster.MoveLeader(within(t, testTimeout), p.cluster.Members()[2])) // see longTTL
	require.NoError(t, frozen.Freeze())
	tr.awaitPuts(t, perConnection)
	require.NoError(t, frozen.Continue())
	tr.finish(t)
}

// A watch of what does not change is cut again and again, and misses nothing.
func TestAnIdleWatchBehindNginx(t *testing.T) {
	const cuts = 2
	p := startProxied(t, "etcd.conf", "grpc_read_timeout 60s;", "grpc_read_timeout 1s;")
	client, w := connect(t, "", p.endpoints()...)
	ctx := within(t, testTimeout)
	events, version := client.Watch(ctx, "idle"), int64(0)
	for n := range int64(cuts) {
		require.Eventually(t, func() bool { return w.resumed.Load() > n }, testTimeout, pollInterval, "the watch is not cut")
		putUntilKnown(t, client, "idle", fmt.Sprint(n))
		for value := ""; value != fmt.Sprint(n); {
			resp := <-events
			require.NoError(t, resp.Err())
			require.NotEmpty(t, resp.Events)
			for _, event := range resp.Events {
				version++
				assert.Equal(t, version, event.Kv.Version)
				value = string(event.Kv.Value)
			}
		}
	}
}

// Two addresses with the same members behind both are two endpoints to a client. With every
// answer it sees another role of an endpoint.
func TestManyMembersAreOneEndpoint(t *testing.T) {
	p := startProxied(t, "etcd.conf")
	other, err := link.Listen(p.nginx.address)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, other.Close()) })
	client, _ := connect(t, "leader", p.links[0].Addr(), other.Addr())
	tr := begin(t, client, ttl)
	tr.awaitPuts(t, 200)
	for range 2 {
		leader, err := p.cluster.Leader(within(t, testTimeout))
		require.NoError(t, err)
		next := p.cluster.Members()[(leader.Index()+1)%3]
		require.NoError(t, p.cluster.MoveLeader(within(t, testTimeout), next))
		tr.awaitPuts(t, 200)
	}
	tr.finish(t)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(client.EndpointStatus(), func(s health.Status) bool {
			return s.State != health.Serving || etcdprobe.RoleOf(&s).ID == 0
		})
	}, readmission, pollInterval, "both serve, and have the role of the member that answered last: %v", client.EndpointStatus())
}

// With an address for each member the client knows the members, and leaves one that hangs,
// although nginx does not.
func TestAnAddressForEachMember(t *testing.T) {
	p := startProxied(t, "members.conf")
	client, w := connect(t, "leader", p.endpoints()...)
	tr := begin(t, client, longTTL)
	tr.awaitPuts(t, 100)
	var leader *lab.Member
	require.Eventually(t, func() bool { // a busy machine may elect another one meanwhile
		var err error
		leader, err = p.cluster.Leader(within(t, testTimeout))
		require.NoError(t, err)
		statuses := client.EndpointStatus()
		for i, m := range p.cluster.Members() {
			n := slices.IndexFunc(statuses, func(s health.Status) bool { return s.Endpoint == p.links[i].Addr() })
			if n < 0 {
				return false
			}
			if role := etcdprobe.RoleOf(&statuses[n]); role.ID != m.ID() || role.Leader != leader.ID() {
				return false
			}
		}
		return true
	}, testTimeout, pollInterval, "each endpoint is its member")

	require.NoError(t, leader.Freeze())
	tr.awaitPuts(t, 200)
	// Others may have a leader, and answer, before the silence is long enough for a verdict.
	require.Eventually(t, func() bool { return w.saw(health.Dead) }, testTimeout, pollInterval, "the endpoint of the leader that hangs")
	require.NoError(t, leader.Continue())
	tr.finish(t)
}
