package dns_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/resolver/dns"
)

// A client finds its cluster by SRV records, and follows them.
func TestEtcd(t *testing.T) {
	ns := nameserver.Start(t, "")
	member := cluster.Members()[0]
	portOf := func(endpoint string) string {
		u, err := url.Parse(endpoint)
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(u.Host)
		require.NoError(t, err)
		return port
	}
	through, past := portOf(member.Endpoint()), portOf(member.DirectEndpoint())
	record := func(port string) string { return fmt.Sprintf("30 0 0 %s etcd-0.test.", port) }
	ns.Set(t, "etcd-0.test. A", "30 127.0.0.1")
	ns.Set(t, "_etcd-client-blue._tcp.test. SRV", record(through))
	cfg := dns.EtcdConfig{Config: dns.Config{Server: ns.Addr, Interval: interval}, ServiceName: "blue"}

	endpoints, err := dns.DiscoverEtcd(labtest.Context(t), "test.", cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"http://etcd-0.test.:" + through}, endpoints)
	client := labtest.Client(t, clientv3.Config{Endpoints: endpoints, DialOptions: []grpc.DialOption{ns.Dialer()}})
	_, err = client.Put(labtest.Context(t), "found", "by its records")
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- dns.FollowEtcd(ctx, "test.", cfg, client) }()
	ns.Set(t, "_etcd-client-blue._tcp.test. SRV", record(past))
	eventually(t, "the client's endpoints stay", func() bool {
		return slices.Equal(client.Endpoints(), []string{"http://etcd-0.test.:" + past})
	})
	_, err = client.Put(labtest.Context(t), "found", "elsewhere")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-followed, context.Canceled)
}
