package calls

import (
	"context"
	"crypto/tls"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	official "go.etcd.io/etcd/client/v3"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/leaderelection"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/link"
	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
)

// clusterConfig is what a group is measured on.
type clusterConfig struct {
	Members int  `json:"members"`
	TLS     bool `json:"tls,omitempty"`
	// ToClient and BetweenMembers are delays of a link in each direction.
	ToClient       time.Duration `json:"toClientNanoseconds,omitempty"`
	BetweenMembers time.Duration `json:"betweenMembersNanoseconds,omitempty"`
}

// client is one way to make calls.
type client struct {
	name string
	of   func(operation) call
}

// start starts the cluster, writes the keys of the operations, and returns the clients, which have made a call.
func (g group) start(tb testing.TB) []client {
	c := g.cluster
	cluster := labtest.Start(tb, lab.Config{Members: c.Members, TLS: c.TLS, Args: []string{"--quota-backend-bytes=8589934592"}})
	endpoints := cluster.DirectEndpoints()
	if c.ToClient > 0 {
		endpoints = cluster.Endpoints()
	}
	for _, from := range cluster.Members() {
		for _, to := range cluster.Members() {
			if from != to {
				cluster.PeerLink(from, to).Delay(link.Both, c.BetweenMembers)
			}
		}
		cluster.ClientLink(from).Delay(link.Both, c.ToClient)
	}
	kv := pb.NewKVClient(cluster.Members()[0].Conn())
	for _, o := range g.operations {
		keys := o.keys
		if o.kind == getPrefix {
			keys = many(o.keys[0], rangeKeys)
		}
		for some := range slices.Chunk(keys, 100) {
			var write pb.TxnRequest
			for _, key := range some {
				write.Success = append(write.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
					RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(o.value)},
				}})
			}
			_, err := kv.Txn(tb.Context(), &write)
			require.NoError(tb, err)
		}
	}
	clients := g.clients(tb, cluster, endpoints)
	for _, client := range clients {
		require.NoError(tb, client.of(g.operations[0])(tb.Context(), 0), client.name)
	}
	return clients
}

func stubAndClients(tb testing.TB, cluster *lab.Cluster, endpoints []string) []client {
	return []client{
		stub(tb, cluster, endpoints),
		officialClient(tb, cluster, endpoints),
		quorate("quorate", newQuorate(tb, cluster, clientv3.Config{Endpoints: endpoints})),
	}
}

// sharedRPCs are clients of which the last lets calls share RPCs.
func sharedRPCs(tb testing.TB, cluster *lab.Cluster, endpoints []string) []client {
	alone := newQuorate(tb, cluster, clientv3.Config{Endpoints: endpoints})
	return []client{
		officialClient(tb, cluster, endpoints),
		quorate("quorate", alone),
		quorate("batch", batch.New(alone, batch.Config{JoinReads: true, GroupWrites: true})),
	}
}

// executedOnce are clients whose writes are plain, idempotent, idempotent and grouped, and fenced by a term.
func executedOnce(tb testing.TB, cluster *lab.Cluster, endpoints []string) []client {
	c := newQuorate(tb, cluster, clientv3.Config{Endpoints: endpoints})
	once, err := idempotent.New(tb.Context(), c, idempotent.Config{})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, once.Close()) })
	leads, left := make(chan clientv3.KV), make(chan error)
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		left <- leaderelection.Run(ctx, c, leaderelection.Config{Name: "bench"}, func(ctx context.Context, term *leaderelection.Term) error {
			leads <- term.KV()
			<-ctx.Done()
			return nil
		})
	}()
	tb.Cleanup(func() {
		leave()
		require.NoError(tb, <-left)
	})
	return []client{
		quorate("plain", clientv3.NewKV(c)), quorate("idempotent", once),
		quorate("grouped", batch.New(once, batch.Config{GroupWrites: true, MaxOps: 127})), quorate("fenced", <-leads), // as idempotent advises
	}
}

// strategies are clients that choose the member by different rules.
func strategies(tb testing.TB, cluster *lab.Cluster, endpoints []string) []client {
	all := []client{officialClient(tb, cluster, endpoints)}
	for _, name := range []string{"round_robin", "leader"} {
		all = append(all, quorate(name, newQuorate(tb, cluster, clientv3.Config{Endpoints: endpoints, Balancer: name})))
	}
	return all
}

// observers are clients with observers; the first has none.
func observers(tb testing.TB, cluster *lab.Cluster, endpoints []string) []client {
	prom, err := quorateprom.New(prometheus.NewRegistry(), quorateprom.Options{Client: "orders"})
	require.NoError(tb, err)
	otel, err := quorateotel.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), quorateotel.Options{Client: "orders"})
	require.NoError(tb, err)
	spans := func(part float64) observe.Observer {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(part)))
		tracer, err := quorateotel.NewTracer(provider, quorateotel.Options{Client: "orders"})
		require.NoError(tb, err)
		return tracer
	}
	of := func(name string, o observe.Observer) client {
		return quorate(name, newQuorate(tb, cluster, clientv3.Config{Endpoints: endpoints, Observer: o}))
	}
	return []client{
		of("none", nil), of("prometheus", prom), of("otel, metrics", otel), of("otel, spans, 1 % sampled", spans(0.01)),
		of("prometheus and spans, 1 % sampled", observe.Multi(prom, spans(0.01))), of("otel, spans, all sampled", spans(1)),
	}
}

// stub makes calls with requests and call options that are made once, on a connection with gRPC's defaults or, if there
// are several endpoints, its round robin.
func stub(tb testing.TB, cluster *lab.Cluster, endpoints []string) client {
	addresses := manual.NewBuilderWithScheme("bench")
	var state resolver.State
	for _, e := range endpoints {
		_, host, _ := strings.Cut(e, "://")
		state.Addresses = append(state.Addresses, resolver.Address{Addr: host, ServerName: "localhost"})
	}
	addresses.InitialState(state)
	opts := []grpc.DialOption{grpc.WithResolvers(addresses), grpc.WithTransportCredentials(transportCredentials(cluster.ClientTLS()))}
	if len(endpoints) > 1 {
		opts = append(opts, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	}
	conn, err := grpc.NewClient("bench:///", opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return client{"stub", func(o operation) call { return stubCall(pb.NewKVClient(conn), o) }}
}

func transportCredentials(cfg *tls.Config) credentials.TransportCredentials {
	if cfg == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(cfg)
}

// callOptions are the call options of the official client and of Quorate.
var callOptions = []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32)}

func stubCall(kv pb.KVClient, o operation) call {
	key := []byte(o.keys[0])
	read, write := &pb.RangeRequest{Key: key}, &pb.PutRequest{Key: key, Value: []byte(o.value)}
	switch o.kind {
	case put:
		return func(ctx context.Context, _ int) error { _, err := kv.Put(ctx, write, callOptions...); return err }
	case txn:
		request := &pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: write}}},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: read}}},
		}
		return func(ctx context.Context, _ int) error { _, err := kv.Txn(ctx, request, callOptions...); return err }
	case getPrefix:
		read.RangeEnd = []byte(official.GetPrefixRangeEnd(o.keys[0]))
	default:
		read.Serializable = o.kind == getSerializable
	}
	return func(ctx context.Context, _ int) error { _, err := kv.Range(ctx, read, callOptions...); return err }
}

func officialClient(tb testing.TB, cluster *lab.Cluster, endpoints []string) client {
	c, err := official.New(official.Config{Endpoints: endpoints, TLS: cluster.ClientTLS(), Logger: zap.NewNop()})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return client{"official", func(o operation) call { return officialCall(c, o) }}
}

func newQuorate(tb testing.TB, cluster *lab.Cluster, cfg clientv3.Config) *clientv3.Client {
	cfg.TLS = cluster.ClientTLS()
	return labtest.Client(tb, cfg)
}

// quorate is a client with a KV of Quorate. Its calls are those of officialClient: go generate ./lab/robustness/client copies
// them.
func quorate(name string, c clientv3.KV) client {
	return client{name, func(o operation) call { return quorateCall(c, o) }}
}

func (o operation) key(caller int) string { return o.keys[caller%len(o.keys)] }
