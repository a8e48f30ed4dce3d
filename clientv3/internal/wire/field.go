package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// The tags of the fields, as they stand on the wire: number and wire type. All
// numbers are below 16, so that a tag is a byte.
const (
	responseHeader          = byte(1<<3 | protowire.BytesType)
	responseWatchID         = byte(2<<3 | protowire.VarintType)
	responseCreated         = byte(3<<3 | protowire.VarintType)
	responseCanceled        = byte(4<<3 | protowire.VarintType)
	responseCompactRevision = byte(5<<3 | protowire.VarintType)
	responseCancelReason    = byte(6<<3 | protowire.BytesType)
	responseFragment        = byte(7<<3 | protowire.VarintType)
	responseEvents          = byte(11<<3 | protowire.BytesType)

	headerClusterID = byte(1<<3 | protowire.VarintType)
	headerMemberID  = byte(2<<3 | protowire.VarintType)
	headerRevision  = byte(3<<3 | protowire.VarintType)
	headerRaftTerm  = byte(4<<3 | protowire.VarintType)

	eventType   = byte(1<<3 | protowire.VarintType)
	eventKV     = byte(2<<3 | protowire.BytesType)
	eventPrevKV = byte(3<<3 | protowire.BytesType)

	kvKey            = byte(1<<3 | protowire.BytesType)
	kvCreateRevision = byte(2<<3 | protowire.VarintType)
	kvModRevision    = byte(3<<3 | protowire.VarintType)
	kvVersion        = byte(4<<3 | protowire.VarintType)
	kvValue          = byte(5<<3 | protowire.BytesType)
	kvLease          = byte(6<<3 | protowire.VarintType)
)

// field is a field as it stands on the wire: its tag, and by the tag's wire type
// a number or bytes. The bytes are those of the input.
type field struct {
	tag    byte
	number uint64
	bytes  []byte
}

// consumeField takes the first field off b, which is not empty. It returns false
// if that is no whole field, or neither a varint nor bytes. A tag of several bytes
// gives some field whose tag is none of the above.
func consumeField(b []byte) (f field, rest []byte, ok bool) {
	f.tag, b = b[0], b[1:]
	var n int
	switch protowire.Type(f.tag & 7) {
	case protowire.VarintType:
		f.number, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		return field{}, nil, false
	}
	if n < 0 {
		return field{}, nil, false
	}
	return f, b[n:], true
}
