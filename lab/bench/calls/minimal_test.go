package calls

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/lab"
)

// minimal is the cheapest client that can end a call early and learns how each ended: a request, a record in a context that can
// be cancelled, and a policy whose Done notes the latency. With defaults it has those of Quorate's that cost gRPC time: pings,
// for which gRPC reads the clock at each frame, and the header with the API version.
func minimal(tb testing.TB, name, endpoint string, defaults bool) client {
	address := resolver.Address{Addr: strings.TrimPrefix(endpoint, "http://")}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"minimal":{}}]}`),
	}
	if defaults {
		address.Metadata = &metadata.MD{rpctypes.MetadataClientAPIVersionKey: {version.APIVersion}} //nolint:staticcheck // attributes do not become headers
		opts = append(opts, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 20 * time.Second}))
	}
	r := manual.NewBuilderWithScheme("minimal")
	r.InitialState(resolver.State{Addresses: []resolver.Address{address}})
	conn, err := grpc.NewClient("minimal:///"+address.Addr, append(opts, grpc.WithResolvers(r))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	kv := pb.NewKVClient(conn)
	return client{name, func(o operation) call {
		return func(ctx context.Context, caller int) error {
			r := newRecord(ctx)
			defer r.cancel(nil)
			var err error
			if key := []byte(o.key(caller)); o.kind == put {
				_, err = kv.Put(r, &pb.PutRequest{Key: key, Value: []byte(o.value)}, callOptions...)
			} else {
				_, err = kv.Range(r, &pb.RangeRequest{Key: key}, callOptions...)
			}
			return err
		}
	}}
}

// minimalAndClients are the stub, the minimal clients, the official client and Quorate.
func minimalAndClients(tb testing.TB, cluster *lab.Cluster, endpoints []string) []client {
	return slices.Insert(stubAndClients(tb, cluster, endpoints), 1,
		minimal(tb, "minimal", endpoints[0], false), minimal(tb, "minimal+defaults", endpoints[0], true))
}

// record is the record of a call, and its context.
type record struct {
	context.Context
	cancel context.CancelCauseFunc
	began  time.Time
}

type recordKey struct{}

func newRecord(ctx context.Context) *record {
	r := &record{began: time.Now()}
	r.Context, r.cancel = context.WithCancelCause(ctx)
	return r
}

func (r *record) Value(key any) any {
	if key == (recordKey{}) {
		return r
	}
	return r.Context.Value(key)
}

func init() {
	balancer.Register(base.NewBalancerBuilder("minimal", minimalBuilder{}, base.Config{}))
}

type minimalBuilder struct{}

func (minimalBuilder) Build(info base.PickerBuildInfo) balancer.Picker {
	for sc := range info.ReadySCs {
		return &minimalPicker{conn: sc}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type minimalPicker struct {
	conn balancer.SubConn
	took atomic.Int64
}

func (p *minimalPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	r, _ := info.Ctx.Value(recordKey{}).(*record)
	return balancer.PickResult{SubConn: p.conn, Done: func(balancer.DoneInfo) { p.took.Add(int64(time.Since(r.began))) }}, nil
}
