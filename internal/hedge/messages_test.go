package hedge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func TestAllowed(t *testing.T) {
	assert.True(t, Allowed(nil))
	assert.True(t, Allowed([]grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1 << 20)}))
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
