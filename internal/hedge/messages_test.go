package hedge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/pool/grpcpool"
	"github.com/quorate/quorate/retry"
)

func TestAllowed(t *testing.T) {
	assert.True(t, Allowed(nil))
	assert.True(t, Allowed([]grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1 << 20), grpcpool.UseClass(grpcpool.Bulk)}))
	var header metadata.MD
	assert.False(t, Allowed([]grpc.CallOption{grpc.Header(&header)}), "two calls would write to it")
}

func TestMove(t *testing.T) {
	from := &pb.RangeResponse{
		Header: &pb.ResponseHeader{Revision: 4}, Count: 2, More: true,
		Kvs: []*mvccpb.KeyValue{{Key: []byte("a")}, {Key: []byte("b"), Value: []byte("v")}},
	}
	from.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01})
	want := proto.Clone(from)
	into := &pb.RangeResponse{Count: 9, Kvs: []*mvccpb.KeyValue{{Key: []byte("partial")}}}
	move(into, from)
	assert.True(t, proto.Equal(want, into), "%v", into)
}

// A reply that wraps a message is legal for gRPC.
func TestWrappersAreNotHedged(t *testing.T) {
	type wrapper struct{ proto.Message }
	for _, reply := range []any{&wrapper{new(pb.RangeResponse)}, wrapper{new(pb.RangeResponse)}, nil} {
		h := Hedger{Budget: retry.NewBudget(retry.Throttling{MaxTokens: 5, TokenRatio: 1})}
		first, call := new(balancer.Attempt), new(Call)
		h.Begin(call, first)
		h.Overdue(call, first, new(pb.RangeRequest), reply, 0, nil)
		assert.Nil(t, h.End(call))
	}
}

// TestDynamicMessageIsHedged hedges a call of a gateway, whose messages have the Go type of all dynamic ones.
func TestDynamicMessageIsHedged(t *testing.T) {
	answer := &pb.RangeResponse{Count: 2}
	text, err := proto.Marshal(answer)
	require.NoError(t, err)
	reply := dynamicpb.NewMessage(answer.ProtoReflect().Descriptor())

	h := Hedger{Budget: retry.NewBudget(retry.Throttling{MaxTokens: 5, TokenRatio: 1})}
	first, call := new(balancer.Attempt), new(Call)
	h.Begin(call, first)
	h.Overdue(call, first, reply, reply, 0, func(_, into proto.Message) *Second {
		return &Second{
			Attempt: new(balancer.Attempt), Cancel: func(error) {}, Outrun: func(error) {},
			Observer: observe.None{}, Event: func() observe.Hedge { return observe.Hedge{} },
			Send: func() error { return proto.Unmarshal(text, into) },
		}
	})
	require.NoError(t, h.Conclude(t.Context(), h.End(call), reply, errors.New("outrun"), false, nil, nil))
	assert.True(t, proto.Equal(answer, reply), "%v", reply)
}
