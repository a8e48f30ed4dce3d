package resolver_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

func TestBuilder(t *testing.T) {
	_, err := resolver.NewBuilder(nil)
	require.ErrorContains(t, err, "client")

	_, client, _ := start(t)
	b, err := resolver.NewBuilder(client)
	require.NoError(t, err)
	require.Equal(t, "etcd", b.Scheme())
}

func TestTargets(t *testing.T) {
	_, client, _ := start(t)
	for service, addr := range map[string]string{"svc": "1:1", "eu/svc": "2:2", "svc2": "3:3", "svc/": "4:4", "a b": "5:5"} {
		register(t, client, service, map[string]string{"a": addr})
	}
	tests := map[string]string{
		"etcd:///svc":                "1:1",
		"etcd:svc":                   "1:1",
		"etcd:/svc":                  "1:1",
		"etcd://some.authority/svc":  "1:1",
		"etcd:///svc?a=query#ignore": "1:1",
		"etcd:///eu/svc":             "2:2",
		"etcd:///svc2":               "3:3",
		"etcd:///a%20b":              "5:5",
	}
	for target, addr := range tests {
		t.Run(target, func(t *testing.T) {
			c := newChannel()
			resolve(t, client, target, c)
			assert.Contains(t, c.state(t), addr)
		})
	}
	for _, target := range []string{"etcd:///", "etcd://svc", "etcd:"} {
		t.Run(target, func(t *testing.T) {
			b, err := resolver.NewBuilder(client)
			require.NoError(t, err)
			_, err = b.Build(parse(t, target), newChannel(), gresolver.BuildOptions{})
			require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			require.ErrorContains(t, err, "etcd:///service")
		})
	}
}

func TestAddresses(t *testing.T) {
	cluster, client, _ := start(t)
	for key, value := range map[string]string{
		"svc/bad":     "127.0.0.1:1",
		"svc/nowhere": `{"Addr":"","Metadata":"m"}`,
		"svc2/a":      `{"Addr":"of another service"}`,
	} {
		_, err := cluster.Put(key, value)
		require.NoError(t, err)
	}
	register(t, client, "svc", map[string]string{"d": "4", "a": "9", "c": "3", "b": "2"})
	c := newChannel()
	resolve(t, client, "etcd:///svc", c)
	require.ElementsMatch(t, []string{"9", "2", "3", "4"}, c.state(t))
	register(t, client, "svc", map[string]string{"b": "", "aa": "1", "d": "5"})
	require.ElementsMatch(t, []string{"9", "1", "3", "5"}, c.state(t))
	require.Empty(t, c.errs)
}

// Channels that use the first address, as gRPC's do by default, must not all use the
// same; and one that is told of a change keeps its order.
func TestOrderOfAddresses(t *testing.T) {
	_, client, _ := start(t)
	register(t, client, "svc", map[string]string{"a": "1", "b": "2", "c": "3"})
	firsts := map[string]bool{}
	for range 50 { // that one of three is never the first: 3*(2/3)^50, 5 in a billion
		c := newChannel()
		resolve(t, client, "etcd:///svc", c)
		firsts[c.state(t)[0]] = true
	}
	require.Len(t, firsts, 3)

	c := newChannel()
	resolve(t, client, "etcd:///svc", c)
	before := c.state(t)
	for range 5 {
		register(t, client, "svc", map[string]string{"d": "4"})
		with := c.state(t)
		require.Len(t, with, 4)
		require.Equal(t, before, slices.DeleteFunc(with, func(addr string) bool { return addr == "4" }))
		register(t, client, "svc", map[string]string{"d": ""})
		require.Equal(t, before, c.state(t))
	}
}

// Without endpoints the channel is told so, from the first moment on.
func TestNoEndpoints(t *testing.T) {
	_, client, _ := start(t)
	c := newChannel()
	resolve(t, client, "etcd:///svc", c)
	requireNone := func() {
		t.Helper()
		require.Empty(t, c.state(t))
		err := c.failure(t)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, `service "svc": no endpoint is registered`)
	}
	requireNone()
	register(t, client, "svc", map[string]string{"a": "1"})
	require.Equal(t, []string{"1"}, c.state(t))
	register(t, client, "svc", map[string]string{"a": ""})
	requireNone()
}

// Build returns at once, and the channel learns why it has no endpoints.
func TestEtcdIsAwayFromTheStart(t *testing.T) {
	t.Parallel()
	cluster, client, other := start(t)
	register(t, other, "svc", map[string]string{"a": "1"})
	cluster.Member(0).Stop()
	c := newChannel()
	began := time.Now()
	resolve(t, client, "etcd:///svc", c)
	assert.Less(t, time.Since(began), time.Second)
	require.ErrorContains(t, c.failure(t), `listing the endpoints below "svc/"`)
	cluster.Member(0).Start()
	require.Equal(t, []string{"1"}, c.state(t))
}

func TestEtcdRefuses(t *testing.T) {
	cluster, client, _ := start(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	refused := cluster.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
	c := newChannel()
	resolve(t, client, "etcd:///svc", c)
	for range 2 {
		require.ErrorContains(t, c.failure(t), "permission denied")
	}
	refused.Remove()
	require.Equal(t, []string{"1"}, c.state(t))
}

// In an outage the channel keeps what it has. Afterwards, what the watch needs has
// been compacted.
func TestOutageAndCompaction(t *testing.T) {
	cluster, client, other := start(t)
	register(t, client, "svc", map[string]string{"a": "1", "b": "2"})
	c := newChannel()
	resolve(t, client, "etcd:///svc", c)
	require.ElementsMatch(t, []string{"1", "2"}, c.state(t))
	require.NoError(t, cluster.Wait(within(t), "Watch", 1))

	cluster.Member(0).Stop()
	register(t, other, "svc", map[string]string{"a": ""})
	register(t, other, "svc", map[string]string{"c": "3"})
	require.NoError(t, cluster.Compact(cluster.Revision()))
	require.Empty(t, c.states, "it keeps the endpoints that it has")
	cluster.Member(0).Start()

	require.ElementsMatch(t, []string{"2", "3"}, c.state(t))
	register(t, other, "svc", map[string]string{"d": "4"})
	require.ElementsMatch(t, []string{"2", "3", "4"}, c.state(t))
	require.Empty(t, c.errs, "a compaction is no reason to trouble the channel")
}

func TestClientIsClosed(t *testing.T) {
	cluster, client, _ := start(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	c := newChannel()
	resolve(t, client, "etcd:///svc", c)
	require.Equal(t, []string{"1"}, c.state(t))
	require.NoError(t, cluster.Wait(within(t), "Watch", 1))
	require.NoError(t, client.Close())
	require.ErrorContains(t, c.failure(t), "the etcd client was closed")
	require.Empty(t, c.states, "what it knows may still be right")
}

// Close returns only when the channel will not be told anything any more.
func TestCloseWaits(t *testing.T) {
	_, client, _ := start(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	c := newChannel()
	entered, release := make(chan struct{}), make(chan struct{})
	c.before = func() {
		close(entered)
		<-release
	}
	r := resolve(t, client, "etcd:///svc", c)
	<-entered
	closed := make(chan struct{})
	go func() {
		r.Close()
		close(closed)
	}()
	select {
	case <-closed:
		require.Fail(t, "Close returned while the channel was being told something")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-closed
	register(t, client, "svc", map[string]string{"b": "2"})
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, 1, c.calls)
}

func TestResolveNow(t *testing.T) {
	cluster, client, _ := start(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	c := newChannel()
	r := resolve(t, client, "etcd:///svc", c)
	require.Equal(t, []string{"1"}, c.state(t))
	before := cluster.Count("Range")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { r.ResolveNow(gresolver.ResolveNowOptions{}) })
	}
	wg.Wait()
	r.Close()
	r.ResolveNow(gresolver.ResolveNowOptions{})
	r.Close()
	require.Equal(t, before, cluster.Count("Range"))
}
