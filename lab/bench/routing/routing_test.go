// Package routing measures what a call costs when the members are far from each other: the official
// client and Quorate, whose strategies choose the member, side by side on one cluster.
//
//	go test ./lab/bench/routing -run '^$' -bench . -count 5 | benchstat -col /client -
package routing

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	official "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

func TestMain(m *testing.M) {
	lab.Main()
	m.Run()
}

// oneWay is the delay of the network between two members, in each direction: 10 ms for a round trip.
const oneWay = 5 * time.Millisecond

// kv is what both clients do alike.
type kv struct {
	put          func(ctx context.Context, key, value string) error
	get          func(ctx context.Context, key string) error
	serializable func(ctx context.Context, key string) error
}

func BenchmarkDistantMembers(b *testing.B) {
	cluster, err := lab.Start(b.Context(), lab.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Close()) })
	for _, from := range cluster.Members() {
		for _, to := range cluster.Members() {
			if from != to {
				cluster.PeerLink(from, to).Delay(link.Both, oneWay)
			}
		}
	}
	clients := []struct {
		name string
		kv   kv
	}{
		{"official", officialKV(b, cluster)},
		{"round_robin", quorateKV(b, cluster, "round_robin")},
		{"leader", quorateKV(b, cluster, "leader")},
	}
	for _, op := range []struct {
		name string
		call func(kv) error
	}{
		{"put", func(c kv) error { return c.put(b.Context(), "k", "v") }},
		{"get", func(c kv) error { return c.get(b.Context(), "k") }},
		{"serializable", func(c kv) error { return c.serializable(b.Context(), "k") }},
	} {
		for _, c := range clients {
			b.Run("op="+op.name+"/client="+c.name, func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, op.call(c.kv))
				}
			})
		}
	}
}

func officialKV(b *testing.B, cluster *lab.Cluster) kv {
	client, err := official.New(official.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	return kv{
		put: func(ctx context.Context, key, value string) error { _, err := client.Put(ctx, key, value); return err },
		get: func(ctx context.Context, key string) error { _, err := client.Get(ctx, key); return err },
		serializable: func(ctx context.Context, key string) error {
			_, err := client.Get(ctx, key, official.WithSerializable())
			return err
		},
	}
}

func quorateKV(b *testing.B, cluster *lab.Cluster, strategy string) kv {
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Balancer: strategy, Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	return kv{
		put: func(ctx context.Context, key, value string) error { _, err := client.Put(ctx, key, value); return err },
		get: func(ctx context.Context, key string) error { _, err := client.Get(ctx, key); return err },
		serializable: func(ctx context.Context, key string) error {
			_, err := client.Get(ctx, key, clientv3.WithSerializable())
			return err
		},
	}
}
