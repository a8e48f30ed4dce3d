package calls

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// minimal is the least that a client costs which can end a call early and learns how each
// ended: a request, a record in a context that can be cancelled, and a policy whose Done notes
// the latency. With pings gRPC reads the clock for each frame, as with Quorate's defaults.
func minimal(b *testing.B, name, endpoint string, opts ...grpc.DialOption) contender {
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"minimal":{}}]}`))
	conn, err := grpc.NewClient(strings.TrimPrefix(endpoint, "http://"), opts...)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, conn.Close()) })
	stub := pb.NewKVClient(conn)
	return contender{
		name,
		func(ctx context.Context) error {
			r := newRecord(ctx)
			defer r.cancel(nil)
			_, err := stub.Range(r, &pb.RangeRequest{Key: []byte(key)}, callOptions...)
			return err
		},
		func(ctx context.Context) error {
			r := newRecord(ctx)
			defer r.cancel(nil)
			_, err := stub.Put(r, &pb.PutRequest{Key: []byte(key), Value: []byte(value)}, callOptions...)
			return err
		},
	}
}

// pings are those of a Quorate client with defaults.
var pings = grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 20 * time.Second})

// record is a call's record, and its context.
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
