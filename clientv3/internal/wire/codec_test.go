package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func TestCodecIsProtoForTheRest(t *testing.T) {
	codec, std := watchCodec(), encoding.GetCodecV2(protocodec.Name)
	assert.Equal(t, "proto", codec.Name())

	request := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 7},
	}}
	data, err := codec.Marshal(request)
	require.NoError(t, err)
	defer data.Free()
	want, err := proto.Marshal(request)
	require.NoError(t, err)
	assert.Equal(t, want, data.Materialize())

	got := new(pb.WatchRequest)
	require.NoError(t, codec.Unmarshal(data, got))
	assert.True(t, proto.Equal(request, got))

	for name, v := range map[string]any{"not a message": "text", "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			want := std.Unmarshal(data, v)
			require.Error(t, want)
			assert.EqualError(t, codec.Unmarshal(data, v), want.Error())
		})
	}
}

func TestCodecEmptyData(t *testing.T) {
	for name, data := range map[string]mem.BufferSlice{
		"no buffer": nil, "an empty buffer": {mem.SliceBuffer(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			got := newUsedResponse()
			require.NoError(t, watchCodec().Unmarshal(data, got))
			assertSameResponse(t, new(pb.WatchResponse), got)
		})
	}
}
