package wire

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// encodedEvents returns a response with n events as etcd encodes it. Keys have 32
// bytes, values 128.
func encodedEvents(tb testing.TB, n int, prevKV bool) mem.BufferSlice {
	tb.Helper()
	m := &pb.WatchResponse{
		Header:  &pb.ResponseHeader{ClusterId: 1 << 60, MemberId: 1 << 61, Revision: 1_000_000, RaftTerm: 3},
		WatchId: 7,
	}
	for i := range n {
		rev := int64(1_000_000 + i)
		kv := &mvccpb.KeyValue{
			Key: fmt.Appendf(nil, "/registry/configmaps/kube/%07d", i), Value: make([]byte, 128),
			CreateRevision: rev, ModRevision: rev, Version: 1,
		}
		ev := &mvccpb.Event{Kv: kv}
		if prevKV {
			ev.PrevKv = kv
		}
		m.Events = append(m.Events, ev)
	}
	data, err := proto.Marshal(m)
	require.NoError(tb, err)
	return mem.BufferSlice{mem.SliceBuffer(data)}
}

// BenchmarkDecode compares with the codec of gRPC.
func BenchmarkDecode(b *testing.B) {
	codecs := []struct {
		name string
		encoding.CodecV2
	}{
		{"proto", encoding.GetCodecV2(protocodec.Name)},
		{"wire", watchCodec()},
	}
	for _, prevKV := range []bool{false, true} {
		for _, events := range []int{1, 100, 1000} {
			data := encodedEvents(b, events, prevKV)
			for _, c := range codecs {
				b.Run(fmt.Sprintf("prevKV=%t/events=%d/%s", prevKV, events, c.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := c.Unmarshal(data, new(pb.WatchResponse)); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
