package consumer_test

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/credentials"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/mock/mockserver"
	_ "go.etcd.io/etcd/client/v3/naming" // exports nothing, and can be imported
	"go.etcd.io/etcd/client/v3/naming/endpoints"
	"go.etcd.io/etcd/client/v3/naming/resolver"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/client/v3/yaml"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

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

	builder, err := resolver.NewBuilder(client)
	require.NoError(t, err)
	require.Equal(t, "etcd", builder.Scheme())
	conn, err := grpc.NewClient("etcd:///service", grpc.WithResolvers(builder), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestMirror(t *testing.T) {
	cluster, client, ctx := start(t)
	_, err := cluster.Put("a/k", "v")
	require.NoError(t, err)
	responses, errs := mirror.NewSyncer(client, "a/", 0).SyncBase(ctx)
	var keys []string
	for response := range responses {
		for _, kv := range response.Kvs {
			keys = append(keys, string(kv.Key))
		}
	}
	require.NoError(t, <-errs)
	require.Equal(t, []string{"a/k"}, keys)
}

// What programs declare with the names of interfaces, and what they hold functions in.
var (
	_ func(kubernetes.Client) kubernetes.Interface                                = func(c kubernetes.Client) kubernetes.Interface { return c }
	_ func() credentials.PerRPCCredentialsBundle                                  = credentials.NewPerRPCCredentialBundle
	_ func(context.Context, *zap.Logger, clientv3.Config, string) (string, error) = snapshot.SaveWithVersion
)

func TestKubernetes(t *testing.T) {
	cluster, _, ctx := start(t)
	client, err := kubernetes.New(config(cluster))
	require.NoError(t, err)
	defer client.Close()
	store := client.Kubernetes
	put, err := store.OptimisticPut(ctx, "/k", []byte("v"), 0, kubernetes.PutOptions{})
	require.NoError(t, err)
	require.True(t, put.Succeeded)
	again, err := store.OptimisticPut(ctx, "/k", []byte("v"), 0, kubernetes.PutOptions{GetOnFailure: true})
	require.NoError(t, err)
	require.False(t, again.Succeeded)
	require.Equal(t, "v", string(again.KV.Value))
}

func TestConfigFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.yaml")
	require.NoError(t, os.WriteFile(path, []byte("endpoints: [\"a:2379\"]\ndial-timeout: 1000000000\n"), 0o600))
	var config *clientv3.Config
	config, err := yaml.NewConfig(path)
	require.NoError(t, err)
	require.Equal(t, []string{"a:2379"}, config.Endpoints)
}

func TestMockServer(t *testing.T) {
	servers, err := mockserver.StartMockServers(2)
	require.NoError(t, err)
	defer servers.Stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{servers.Servers[0].Address, servers.Servers[1].Address}})
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Get(t.Context(), "k")
	require.NoError(t, err)
	servers.StopAt(0)
	require.NoError(t, servers.StartAt(0))
}

func TestCredentials(t *testing.T) {
	bundle := credentials.NewPerRPCCredentialBundle()
	bundle.UpdateAuthToken("token")
	metadata, err := bundle.PerRPCCredentials().GetRequestMetadata(t.Context())
	require.NoError(t, err)
	require.Contains(t, metadata, "token")
	require.Equal(t, "tls", credentials.NewTransportCredential(&tls.Config{MinVersion: tls.VersionTLS13}).Info().SecurityProtocol)
}

func TestSnapshotRefusesManyEndpoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	_, err := snapshot.SaveWithVersion(t.Context(), zap.NewNop(), clientv3.Config{Endpoints: []string{"a:1", "b:1"}}, path)
	require.Error(t, err)
	require.NoFileExists(t, path)
}
