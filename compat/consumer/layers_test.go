package consumer_test

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/credentials"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/client/v3/leasing"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/mock/mockserver"
	_ "go.etcd.io/etcd/client/v3/naming" // exports nothing, and can be imported
	"go.etcd.io/etcd/client/v3/naming/endpoints"
	"go.etcd.io/etcd/client/v3/naming/resolver"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/client/v3/yaml"
	"go.uber.org/zap"
	grpccredentials "google.golang.org/grpc/credentials"
	grpcresolver "google.golang.org/grpc/resolver"
)

// What programs declare with the names of interfaces, and what they hold functions in.
var (
	_ func(kubernetes.Client) kubernetes.Interface                                              = func(c kubernetes.Client) kubernetes.Interface { return c }
	_ func(clientv3.Config) (*kubernetes.Client, error)                                         = kubernetes.New
	_ func() credentials.PerRPCCredentialsBundle                                                = credentials.NewPerRPCCredentialBundle
	_ func(*tls.Config) grpccredentials.TransportCredentials                                    = credentials.NewTransportCredential
	_ func(context.Context, *zap.Logger, clientv3.Config, string) (string, error)               = snapshot.SaveWithVersion
	_ func(*clientv3.Client, string) (endpoints.Manager, error)                                 = endpoints.NewManager
	_ func(*clientv3.Client) (grpcresolver.Builder, error)                                      = resolver.NewBuilder
	_ func(*clientv3.Client, string, int64) mirror.Syncer                                       = mirror.NewSyncer
	_ func(int) (*mockserver.MockServers, error)                                                = mockserver.StartMockServers
	_ func(string) (*clientv3.Config, error)                                                    = yaml.NewConfig
	_ func(*clientv3.Client, string, ...concurrency.SessionOption) (clientv3.KV, func(), error) = leasing.NewKV
	_ func(*clientv3.Client, string) *recipe.Barrier                                            = recipe.NewBarrier
)

// A layer of a program is called over the shim: its values are those of the client below it.
func TestNaming(t *testing.T) {
	_, client, ctx := start(t)
	manager, err := endpoints.NewManager(client, "service")
	require.NoError(t, err)
	require.NoError(t, manager.AddEndpoint(ctx, "service/a", endpoints.Endpoint{Addr: "a:1"}))
	require.NoError(t, manager.Update(ctx, []*endpoints.UpdateWithOpts{
		endpoints.NewAddUpdateOpts("service/b", endpoints.Endpoint{Addr: "b:1"}),
	}))
	all, err := manager.List(ctx)
	require.NoError(t, err)
	require.Equal(t, "b:1", all["service/b"].Addr)
	require.Len(t, all, 2)
}
