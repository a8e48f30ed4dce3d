package wire

import (
	"unicode/utf8"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// decodeWatchResponse decodes b into m, which is empty. It returns false, and
// leaves m half filled, if b is invalid or holds what only proto.Unmarshal knows
// how to keep. As there, a scalar that is repeated has the last value, and a
// message that is repeated is merged.
func decodeWatchResponse(b []byte, m *pb.WatchResponse) bool {
	for len(b) > 0 {
		f, rest, ok := consumeField(b)
		if !ok {
			return false
		}
		b = rest
		if f.tag == responseEvents {
			ev := decodeEvent(f.bytes)
			if ev == nil {
				return false
			}
			if m.Events == nil {
				m.Events = make([]*mvccpb.Event, 0, 1+countEvents(rest))
			}
			m.Events = append(m.Events, ev)
		} else if !setResponseField(m, &f) {
			return false
		}
	}
	return true
}

// setResponseField sets any field but events.
func setResponseField(m *pb.WatchResponse, f *field) bool {
	switch f.tag {
	case responseHeader:
		if m.Header == nil {
			m.Header = new(pb.ResponseHeader)
		}
		return decodeHeader(f.bytes, m.Header)
	case responseWatchID:
		m.WatchId = int64(f.number)
	case responseCreated:
		m.Created = protowire.DecodeBool(f.number)
	case responseCanceled:
		m.Canceled = protowire.DecodeBool(f.number)
	case responseCompactRevision:
		m.CompactRevision = int64(f.number)
	case responseCancelReason:
		m.CancelReason = string(f.bytes)
		return utf8.Valid(f.bytes)
	case responseFragment:
		m.Fragment = protowire.DecodeBool(f.number)
	default:
		return false
	}
	return true
}

// countEvents counts the events in b up to the first thing that is no field.
// Each is at least two bytes long, which bounds what a caller allocates.
func countEvents(b []byte) (n int) {
	for len(b) > 0 {
		f, rest, ok := consumeField(b)
		if !ok {
			break
		}
		if f.tag == responseEvents {
			n++
		}
		b = rest
	}
	return n
}

func decodeHeader(b []byte, h *pb.ResponseHeader) bool {
	for len(b) > 0 {
		f, rest, ok := consumeField(b)
		if !ok {
			return false
		}
		switch f.tag {
		case headerClusterID:
			h.ClusterId = f.number
		case headerMemberID:
			h.MemberId = f.number
		case headerRevision:
			h.Revision = int64(f.number)
		case headerRaftTerm:
			h.RaftTerm = f.number
		default:
			return false
		}
		b = rest
	}
	return true
}
