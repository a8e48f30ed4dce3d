package gozero_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeromicro/go-zero/core/discov"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/zrpc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/adapters/gozero"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/etcd"
)

// start returns a cluster in memory, and what go-zero would be configured with.
func start(t *testing.T) (*fakeetcd.Cluster, *clientv3.Client, discov.EtcdConf) {
	t.Helper()
	logx.Disable()
	cluster, err := fakeetcd.Start(1)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	conf := discov.EtcdConf{Hosts: cluster.Endpoints(), Key: "users.rpc"}
	client, err := gozero.NewClient(conf, clientv3.Config{DialOptions: cluster.DialOptions(), Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return cluster, client, conf
}

// The lease is lost in an outage, and the key is put again without a restart.
func TestARegistrationComesBackAfterAnOutage(t *testing.T) {
	cluster, client, conf := start(t)
	r, err := gozero.Register(t.Context(), client, conf, "10.0.0.7:8080")
	require.NoError(t, err)
	require.Equal(t, "users.rpc/10.0.0.7:8080", r.Key())
	require.Equal(t, "10.0.0.7:8080", string(cluster.Get(r.Key()).Value))
	first := cluster.Get(r.Key()).Lease

	cluster.Member(0).Stop()
	require.NoError(t, cluster.ExpireLease(first))
	require.Nil(t, cluster.Get(r.Key()))
	cluster.Member(0).Start()
	require.Eventually(t, func() bool { return cluster.Get(r.Key()) != nil }, time.Minute, time.Millisecond)
	require.NotEqual(t, first, cluster.Get(r.Key()).Lease)
	require.NoError(t, r.Withdraw(t.Context()))
	require.Nil(t, cluster.Get(r.Key()))
}

func TestAddressesAndKeys(t *testing.T) {
	cluster, client, conf := start(t)
	t.Setenv("POD_IP", "10.1.2.3")
	conf.ID = 7
	for _, host := range []string{"0.0.0.0:8080", ":8080", "[::]:8080"} {
		r, err := gozero.Register(t.Context(), client, conf, host)
		require.NoError(t, err)
		require.Equal(t, "users.rpc/7", r.Key())
		require.Equal(t, "10.1.2.3:8080", string(cluster.Get("users.rpc/7").Value), host)
		require.NoError(t, r.Withdraw(t.Context()))
	}
	_, err := gozero.Register(t.Context(), client, conf, "8080")
	require.ErrorContains(t, err, `ListenOn is "8080"`)
	conf.Key = ""
	_, err = gozero.Register(t.Context(), client, conf, ":8080")
	require.ErrorContains(t, err, "Service is empty")
}

// A client of zrpc, with go-zero's target and load balancing, finds servers that are registered by the adapter and by go-zero's
// own publisher, and those that come later.
func TestAClientOfGoZero(t *testing.T) {
	cluster, client, conf := start(t)
	b, err := gozero.NewResolver(client, etcd.Config{MassRemovalDelay: -1})
	require.NoError(t, err)
	a, theirs := grpctest.ServeHealth(t), grpctest.ServeHealth(t)
	_, err = gozero.Register(t.Context(), client, conf, a)
	require.NoError(t, err)
	users, err := zrpc.NewClient(zrpc.RpcClientConf{Etcd: conf, NonBlock: true, BalancerName: "p2c_ewma"}, zrpc.WithDialOption(grpc.WithResolvers(b)))
	require.NoError(t, err)
	defer func() { assert.NoError(t, users.Conn().Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	grpctest.AskUntilAll(ctx, t, users.Conn(), a)
	byName, err := grpc.NewClient("etcd:///users.rpc", grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { assert.NoError(t, byName.Close()) }()
	grpctest.AskUntilAll(ctx, t, byName, a)
	_, err = cluster.Put("users.rpc/7587862023829", theirs)
	require.NoError(t, err)
	grpctest.AskUntilAll(ctx, t, users.Conn(), a, theirs)
}

func Example() {
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	conf := discov.EtcdConf{Hosts: cluster.Endpoints(), Key: "users.rpc"} // of zrpc.RpcServerConf

	client, err := gozero.NewClient(conf, clientv3.Config{DialOptions: cluster.DialOptions(), Logger: zap.NewNop()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	registrar, err := gozero.Register(context.Background(), client, conf, "10.0.0.7:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(registrar.Key(), registrar.State().State)
	fmt.Println(registrar.Withdraw(context.Background()))
	// Output:
	// users.rpc/10.0.0.7:8080 held
	// <nil>
}
