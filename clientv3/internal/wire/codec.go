package wire

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// WatchCodec returns the option for a Watch stream that makes its responses
// cost two allocations for each event. It goes before options of the caller, so
// that a codec of theirs replaces it.
//
// Requests, and whatever else is sent or received in the call, are encoded by
// the codec that gRPC has for "proto", which is also the content-subtype: the
// stream says application/grpc+proto where it would say application/grpc. The
// errors of a response that cannot be decoded are that codec's.
func WatchCodec() grpc.CallOption {
	return grpc.ForceCodecV2(codec{encoding.GetCodecV2(proto.Name)})
}

// codec is another codec but for the decoding of watch responses.
type codec struct{ encoding.CodecV2 }

// Unmarshal decodes data into v and keeps no reference to it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*pb.WatchResponse); ok && m != nil && decode(data, m) {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// decode reports whether it could decode data. If not, m holds anything.
func decode(data mem.BufferSlice, m *pb.WatchResponse) bool {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	m.Reset()
	return decodeWatchResponse(buf.ReadOnlyData(), m)
}
