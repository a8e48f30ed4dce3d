package resolver_test

import (
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	gresolver "google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/clientv3/naming/resolver"
)

func TestBuilder(t *testing.T) {
	_, err := resolver.New(nil, resolver.Config{})
	require.ErrorContains(t, err, "client")

	_, err = resolver.New(clientv3.NewCtxClient(t.Context()), resolver.Config{})
	require.ErrorContains(t, err, "KV or Watcher")

	_, client, _ := clienttest.StartPair(t)
	_, err = resolver.New(client, resolver.Config{ReportAfter: -1})
	require.ErrorContains(t, err, "ReportAfter is -1ns")
	require.Equal(t, "etcd", newBuilder(t, client, resolver.Config{}).Scheme())
}

func TestTargets(t *testing.T) {
	_, client, _ := clienttest.StartPair(t)
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
			c := resolve(t, client, noOutageConfig, target)
			assert.Contains(t, c.state(t), addr)
		})
	}
	for _, target := range []string{"etcd:///", "etcd://svc", "etcd:"} {
		t.Run(target, func(t *testing.T) {
			u, err := url.Parse(target)
			require.NoError(t, err)
			_, err = newBuilder(t, client, resolver.Config{}).Build(gresolver.Target{URL: *u}, newChannel(), gresolver.BuildOptions{})
			require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			require.ErrorContains(t, err, "etcd:///service")
		})
	}
}

func TestAddresses(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	for key, value := range map[string]string{
		"svc/bad":     "127.0.0.1:1",
		"svc/nowhere": `{"Addr":"","Metadata":"m"}`,
		"svc2/a":      `{"Addr":"of another service"}`,
	} {
		clienttest.Put(t, cluster, key, value)
	}
	register(t, client, "svc", map[string]string{"d": "4", "a": "9", "c": "3", "b": "2"})
	c := resolve(t, client, noOutageConfig, "etcd:///svc")
	require.Equal(t, []string{"9", "2", "3", "4"}, c.state(t), "in the order of the keys")
	register(t, client, "svc", map[string]string{"b": "", "aa": "1", "d": "5"})
	require.Equal(t, []string{"9", "1", "3", "5"}, c.state(t))
	require.Empty(t, c.errs)
}

// Without endpoints the channel receives the reason from the start.
func TestNoEndpoints(t *testing.T) {
	_, client, _ := clienttest.StartPair(t)
	c := resolve(t, client, noOutageConfig, "etcd:///svc")
	requireNone := func() {
		t.Helper()
		require.Empty(t, c.state(t))
		err := c.failure(t)
		require.EqualError(t, err, `etcd: service "svc": no endpoint is registered`)
		require.Equal(t, codes.Unknown, status.Code(err), "calls that wait for ready keep waiting")
	}
	requireNone()
	register(t, client, "svc", map[string]string{"a": "1"})
	require.Equal(t, []string{"1"}, c.state(t))
	register(t, client, "svc", map[string]string{"a": ""})
	requireNone()
}

// A client that is composed by hand, with the services that resolving needs.
func TestClientOfServices(t *testing.T) {
	_, client, _ := clienttest.StartPair(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	parts := clientv3.NewCtxClient(t.Context())
	parts.KV, parts.Watcher = client.KV, client.Watcher
	c := resolve(t, parts, noOutageConfig, "etcd:///svc")
	require.Equal(t, []string{"1"}, c.state(t))
	register(t, client, "svc", map[string]string{"b": "2"})
	require.Equal(t, []string{"1", "2"}, c.state(t))
}

// A value without an address is ignored like an invalid one.
func TestValueWithoutAddressIsIgnored(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	register(t, client, "svc", map[string]string{"a": "1", "b": "2"})
	c := resolve(t, client, noOutageConfig, "etcd:///svc")
	require.Equal(t, []string{"1", "2"}, c.state(t))
	for key, value := range map[string]string{"svc/a": `{"Addr":""}`, "svc/b": "what is this?"} {
		clienttest.Put(t, cluster, key, value)
	}
	register(t, client, "svc", map[string]string{"c": "3"})
	require.Equal(t, []string{"1", "2", "3"}, c.state(t))
	register(t, client, "svc", map[string]string{"a": ""})
	require.Equal(t, []string{"2", "3"}, c.state(t))
}

func TestEtcdRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, client, _ := clienttest.StartPair(t)
		register(t, client, "svc", map[string]string{"a": "1"})
		refused := cluster.On("Range", func(c *fakeetcd.Call) { c.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		c := resolve(t, client, noOutageConfig, "etcd:///svc")
		require.ErrorContains(t, c.failure(t), "permission denied")
		time.Sleep(time.Minute)
		refused.Remove()
		require.Equal(t, []string{"1"}, c.state(t), "it keeps trying")
		require.Empty(t, c.errs, "reported once")
	})
}

// A value that is written again changes nothing for the channel.
func TestEqualListsArePublishedOnce(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	put := func(value string) { clienttest.Put(t, cluster, "svc/a", value) }
	put(`{"Addr":"1","Metadata":{"x":[1]}}`)
	c := resolve(t, client, noOutageConfig, "etcd:///svc")
	require.Equal(t, []string{"1"}, c.state(t))
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))
	put(`{"Addr":"1","Metadata":{"x":[1]}}`)
	put(`{"Addr":"1","Metadata":{ "x" : [1.0] }}`)
	put(`{"Addr":"2"}`)
	require.Equal(t, []string{"2"}, c.state(t))
}

func TestClientIsClosed(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	c := resolve(t, client, noOutageConfig, "etcd:///svc")
	require.Equal(t, []string{"1"}, c.state(t))
	require.NoError(t, cluster.Wait(clienttest.Within(t), "Watch", 1))
	require.NoError(t, client.Close())
	require.ErrorContains(t, c.failure(t), "the etcd client was closed")
	require.Empty(t, c.states, "its list may still be valid")
}

func TestResolveNow(t *testing.T) {
	cluster, client, _ := clienttest.StartPair(t)
	register(t, client, "svc", map[string]string{"a": "1"})
	c, r := open(t, newBuilder(t, client, noOutageConfig), "etcd:///svc")
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
