package clientv3_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// recorder is a connection that answers unary calls from a script and records them. The services
// are tested over the generated clients.
type recorder struct {
	calls []proto.Message // their requests
	// answer returns the reply or error for a request. Without it, or if it returns
	// neither, the reply is empty.
	answer func(req proto.Message) (proto.Message, error)
}

func (r *recorder) Invoke(_ context.Context, _ string, req, reply any, _ ...grpc.CallOption) error {
	sent := proto.Clone(req.(proto.Message))
	r.calls = append(r.calls, sent)
	if r.answer == nil {
		return nil
	}
	answer, err := r.answer(sent)
	if answer != nil {
		proto.Merge(reply.(proto.Message), answer)
	}
	return err
}

func (r *recorder) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("the recorder has no streams")
}

func (r *recorder) kv() clientv3.KV {
	return clientv3.NewKVFromKVClient(pb.NewKVClient(r), nil)
}

func requireProto(t *testing.T, want, got proto.Message) {
	t.Helper()
	if !proto.Equal(want, got) { // Diff takes a second for a large range
		require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
		require.Fail(t, "different messages without a difference")
	}
}

// header is the header of a response at revision rev.
func header(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: fakeetcd.ClusterID, MemberId: 2, RaftTerm: 3, Revision: rev}
}
