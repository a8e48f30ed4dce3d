package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
)

func watchCodec() encoding.CodecV2 { return WatchCodec().(grpc.ForceCodecV2CallOption).CodecV2 }

// assertDecodesAsProto asserts that data becomes the same message, or the same
// error, as by proto.Unmarshal. It returns the message.
func assertDecodesAsProto(t testing.TB, data []byte) *pb.WatchResponse {
	t.Helper()
	want := new(pb.WatchResponse)
	wantErr := proto.Unmarshal(data, want)
	got := newUsedResponse()
	input := bytes.Clone(data)
	gotErr := watchCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(input)}, got)
	for i := range input {
		input[i] ^= 0xff // what still refers to it shows
	}
	require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(gotErr))
	assertSameResponse(t, want, got)

	inParts := newUsedResponse()
	half := len(data) / 2
	gotErr = watchCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:half]), mem.SliceBuffer(data[half:])}, inParts)
	require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(gotErr))
	assertSameResponse(t, want, inParts)
	return got
}

// newUsedResponse returns a response that holds what decoding must remove.
func newUsedResponse() *pb.WatchResponse {
	m := &pb.WatchResponse{
		Header: &pb.ResponseHeader{Revision: 1}, Canceled: true, CancelReason: "old", WatchId: 1, Events: []*mvccpb.Event{{}},
	}
	m.ProtoReflect().SetUnknown([]byte{15 << 3, 1})
	return m
}

// assertSameResponse compares values, encodings (unknown fields, and their
// places), and what is nil.
func assertSameResponse(t testing.TB, want, got *pb.WatchResponse) {
	t.Helper()
	if !proto.Equal(want, got) {
		require.Fail(t, "decoded otherwise", cmp.Diff(want, got, protocmp.Transform()))
	}
	encoding := proto.MarshalOptions{Deterministic: true}
	wantBytes, wantErr := encoding.Marshal(want)
	gotBytes, gotErr := encoding.Marshal(got)
	require.Equal(t, wantErr, gotErr)
	require.Equal(t, wantBytes, gotBytes)
	require.Equal(t, nils(want), nils(got))
}

// nils lists which fields of m are nil.
func nils(m *pb.WatchResponse) []bool {
	list := []bool{m.Header == nil, m.Events == nil}
	for _, ev := range m.Events {
		list = append(list, ev.Kv == nil, ev.PrevKv == nil)
		for _, kv := range []*mvccpb.KeyValue{ev.GetKv(), ev.GetPrevKv()} {
			list = append(list, kv.GetKey() == nil, kv.GetValue() == nil)
		}
	}
	return list
}

// message concatenates fields.
func message(fields ...[]byte) []byte { return slices.Concat(fields...) }

func number(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func content(num protowire.Number, b ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), slices.Concat(b...))
}

func text(num protowire.Number, s string) []byte { return content(num, []byte(s)) }

func group(num protowire.Number, b ...[]byte) []byte {
	return protowire.AppendTag(append(protowire.AppendTag(nil, num, protowire.StartGroupType), slices.Concat(b...)...),
		num, protowire.EndGroupType)
}

// encodings are encodings of watch responses. The lean ones are decoded here, the
// others are left to proto.Unmarshal.
var encodings = []struct {
	name string
	data []byte
	lean bool
	want string // of the error
}{
	{name: "empty", lean: true},
	{name: "created", lean: true, data: message(content(1, number(1, 7), number(2, 8), number(3, 9), number(4, 2)), number(2, 5), number(3, 1))},
	{name: "canceled", lean: true, data: message(number(4, 1), number(5, 3), text(6, "compacted, ключ"))},
	{name: "fragment", lean: true, data: message(number(7, 1), content(11, content(2, text(1, "k"))))},
	{name: "put", lean: true, data: content(11, content(2, text(1, "key"), number(2, 1), number(3, 2), number(4, 3), text(5, "value"), number(6, 4)))},
	{name: "delete", lean: true, data: content(11, number(1, 1), content(2, text(1, "key"), number(3, 2)))},
	{name: "prev_kv", lean: true, data: content(11, content(2, text(1, "key"), text(5, "new")), content(3, text(1, "key"), text(5, "old")))},
	{name: "prev_kv before kv", lean: true, data: content(11, content(3, text(1, "key"), text(5, "old")), content(2, text(1, "key")))},
	{name: "two events", lean: true, data: message(content(11, content(2, text(1, "a"))), content(11, content(2, text(1, "b"))))},
	{name: "fields between events", lean: true, data: message(content(11, content(2, text(1, "a"))), number(2, 5), content(11, content(2)))},
	{name: "empty kv", lean: true, data: content(11, content(2))},
	{name: "empty prev_kv", lean: true, data: content(11, content(2, text(1, "a")), content(3))},
	{name: "empty key and value", lean: true, data: content(11, content(2, text(1, ""), text(5, "")))},
	{name: "empty header", lean: true, data: content(1)},
	{name: "empty cancel_reason", lean: true, data: message(text(6, "reason"), text(6, ""))},
	{name: "negative watch_id", lean: true, data: number(2, 1<<64-1)},
	{name: "boolean above 1", lean: true, data: message(number(3, 2), number(4, 1<<63))},
	{name: "event type beyond 32 bits", lean: true, data: content(11, number(1, 1<<40|7), content(2))},
	{name: "unknown event type", lean: true, data: content(11, number(1, 77), content(2))},
	{name: "repeated scalars", lean: true, data: message(number(2, 1), number(2, 2), number(3, 1), number(3, 0))},
	{name: "repeated header", lean: true, data: message(content(1, number(1, 1), number(3, 5)), content(1, number(3, 6)))},
	{name: "repeated kv", lean: true, data: content(11, content(2, text(1, "a"), text(5, "old"), number(3, 9)), content(2, text(5, "new")))},
	{name: "repeated kv clears value", lean: true, data: content(11, content(2, text(1, "a"), text(5, "old")), content(2, text(5, "")))},
	{name: "repeated prev_kv", lean: true, data: content(11, content(3, text(1, "a")), content(2), content(3, number(4, 2)))},
	{name: "number in ten bytes", lean: true, data: []byte{responseWatchID, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}},
	{name: "length in two bytes", lean: true, data: []byte{responseCancelReason, 0x81, 0, 'a'}},

	{name: "event without kv", data: content(11, number(1, 1))},
	{name: "empty event", data: message(content(11), content(11))},
	{name: "unknown field", data: message(number(2, 5), text(15, "new in etcd 4"), number(3, 1))},
	{name: "unknown field in header", data: content(1, number(9, 1), number(3, 5))},
	{name: "unknown field in event", data: content(11, content(2, text(1, "a")), number(4, 1))},
	{name: "unknown field in kv", data: content(11, content(2, text(1, "a"), number(8, 1)))},
	{name: "unknown field in prev_kv", data: content(11, content(2), content(3, number(8, 1)))},
	{name: "unknown field in second event", data: message(content(11, content(2, text(1, "a"))), content(11, content(2), number(9, 1)))},
	{name: "field number above 15", data: message(number(16, 1), text(1000, "x"))},
	{name: "tag in two bytes", data: []byte{responseWatchID | 0x80, 0, 5}},
	{name: "wrong wire type of a number", data: message(text(2, "x"), number(3, 1))},
	{name: "wrong wire type of header", data: number(1, 1)},
	{name: "wrong wire type of events", data: message(number(11, 1), content(11, content(2)))},
	{name: "wrong wire type of a key", data: content(11, content(2, number(1, 5), text(5, "v")))},
	{name: "fixed32 and fixed64", data: message([]byte{2<<3 | 5, 1, 2, 3, 4}, []byte{3<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8})},
	{name: "group", data: message(number(2, 1), group(11, content(2, text(1, "a")), group(3, number(1, 1))), number(3, 1))},

	{name: "cancel_reason not UTF-8", data: text(6, "\xff"), want: "UTF-8"},
	{name: "cancel_reason not UTF-8 and replaced", data: message(text(6, "\xff"), text(6, "a")), want: "UTF-8"},
	{name: "no value", data: []byte{responseWatchID}, want: "cannot parse"},
	{name: "half a number", data: []byte{responseWatchID, 0x80}, want: "cannot parse"},
	{name: "number in eleven bytes", data: append([]byte{responseWatchID}, bytes.Repeat([]byte{0x80}, 10)...), want: "cannot parse"},
	{name: "number above 64 bits", data: []byte{responseWatchID, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}, want: "cannot parse"},
	{name: "length beyond the end", data: []byte{responseEvents, 5, 1}, want: "cannot parse"},
	{name: "length of 2^63", data: []byte{responseEvents, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, want: "cannot parse"},
	{name: "length of kv beyond the event", data: message(content(11, []byte{eventKV, 9}), text(6, "long enough to hold it")), want: "cannot parse"},
	{name: "length of key beyond kv", data: content(11, content(2, []byte{kvKey, 9}), number(1, 1)), want: "cannot parse"},
	{name: "truncated after events", data: message(content(11, content(2, text(1, "a"))), []byte{responseEvents, 2}), want: "cannot parse"},
	{name: "field number 0", data: []byte{0, 1}, want: "cannot parse"},
	{name: "wire type 6", data: []byte{2<<3 | 6, 1}, want: "cannot parse"},
	{name: "group without end", data: []byte{2<<3 | 3, 1}, want: "cannot parse"},
	{name: "end without group", data: []byte{2<<3 | 4}, want: "cannot parse"},
}

func TestDecode(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			assertDecodesAsProto(t, e.data)
			assert.Equal(t, e.lean, decodeWatchResponse(e.data, new(pb.WatchResponse)), "whether it is decoded here")
			err := proto.Unmarshal(e.data, new(pb.WatchResponse))
			if e.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, e.want)
			}
		})
	}
}

// TestDecodeTruncated cuts valid encodings at every byte.
func TestDecodeTruncated(t *testing.T) {
	for _, e := range encodings {
		for n := range e.data {
			assertDecodesAsProto(t, e.data[:n])
		}
	}
}

func TestDecodeGenerated(t *testing.T) {
	md := new(pb.WatchResponse).ProtoReflect().Descriptor()
	for _, tt := range []struct {
		name   string
		oddity float64
	}{
		{"fields in any order", 0},
		{"few odd fields", 0.02},
		{"many odd fields", 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := generator{rand.New(rand.NewPCG(1, 2)), tt.oddity}
			var valid, lean, events int
			for range 1000 {
				data := g.message(md)
				m := assertDecodesAsProto(t, data)
				if proto.Unmarshal(data, new(pb.WatchResponse)) != nil {
					continue
				}
				valid++
				events += len(m.Events)
				if decodeWatchResponse(data, new(pb.WatchResponse)) {
					lean++
				}
				canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
				require.NoError(t, err)
				assertSameResponse(t, m, assertDecodesAsProto(t, canonical))
			}
			t.Logf("%d valid, %d decoded here, %d events", valid, lean, events)
			assert.Greater(t, lean, 100)
			assert.Greater(t, valid-lean, 100)
			assert.Greater(t, events, 100)
		})
	}
}

// TestTags compares the tags with the released API, so that a field that is added
// there is noticed here: until then responses with it cost what they cost with
// proto.Unmarshal.
func TestTags(t *testing.T) {
	for _, tt := range []struct {
		message proto.Message
		tags    map[protoreflect.Name]byte
	}{
		{&pb.WatchResponse{}, map[protoreflect.Name]byte{
			"header": responseHeader, "watch_id": responseWatchID, "created": responseCreated,
			"canceled": responseCanceled, "compact_revision": responseCompactRevision,
			"cancel_reason": responseCancelReason, "fragment": responseFragment, "events": responseEvents,
		}},
		{&pb.ResponseHeader{}, map[protoreflect.Name]byte{
			"cluster_id": headerClusterID, "member_id": headerMemberID, "revision": headerRevision, "raft_term": headerRaftTerm,
		}},
		{&mvccpb.Event{}, map[protoreflect.Name]byte{"type": eventType, "kv": eventKV, "prev_kv": eventPrevKV}},
		{&mvccpb.KeyValue{}, map[protoreflect.Name]byte{
			"key": kvKey, "create_revision": kvCreateRevision, "mod_revision": kvModRevision,
			"version": kvVersion, "value": kvValue, "lease": kvLease,
		}},
	} {
		md := tt.message.ProtoReflect().Descriptor()
		want := map[protoreflect.Name]byte{}
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			wireType := protowire.VarintType
			if slices.Contains([]protoreflect.Kind{protoreflect.MessageKind, protoreflect.BytesKind, protoreflect.StringKind}, fd.Kind()) {
				wireType = protowire.BytesType
			}
			want[fd.Name()] = byte(protowire.EncodeTag(fd.Number(), wireType))
		}
		assert.Equal(t, want, tt.tags, md.FullName())
	}
}
