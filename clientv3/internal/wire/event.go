package wire

import "go.etcd.io/etcd/api/v3/mvccpb"

// The messages of an event lie in one block. Each of them starts with protobuf's
// state of a message, which must be neither copied nor moved: blocks are only
// ever made on the heap and pointed into.
type (
	eventBlock struct {
		event mvccpb.Event
		kv    mvccpb.KeyValue
	}
	eventPrevBlock struct {
		eventBlock
		prev mvccpb.KeyValue
	}
)

// event is an event that has been read and not yet been given memory.
type event struct {
	kind     mvccpb.Event_EventType
	kv, prev keyValue
}

// keyValue is a KeyValue whose key and value are still those of the input.
type keyValue struct {
	present        bool
	key, value     []byte
	createRevision int64
	modRevision    int64
	version        int64
	lease          int64
}

// decodeEvent returns nil if b is invalid, or an event as etcd sends none: one
// without a KeyValue or with a field that is not known here.
func decodeEvent(b []byte) *mvccpb.Event {
	var e event
	if !e.read(b) || !e.kv.present {
		return nil
	}
	return e.build()
}

func (e *event) read(b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := consumeField(b)
		if !ok {
			return false
		}
		switch f.tag {
		case eventType:
			e.kind = mvccpb.Event_EventType(f.number)
		case eventKV:
			ok = e.kv.read(f.bytes)
		case eventPrevKV:
			ok = e.prev.read(f.bytes)
		default:
			ok = false
		}
		if !ok {
			return false
		}
		b = rest
	}
	return true
}

// read adds to kv what b holds.
func (kv *keyValue) read(b []byte) bool {
	kv.present = true
	for len(b) > 0 {
		f, rest, ok := consumeField(b)
		if !ok {
			return false
		}
		switch f.tag {
		case kvKey:
			kv.key = f.bytes
		case kvCreateRevision:
			kv.createRevision = int64(f.number)
		case kvModRevision:
			kv.modRevision = int64(f.number)
		case kvVersion:
			kv.version = int64(f.number)
		case kvValue:
			kv.value = f.bytes
		case kvLease:
			kv.lease = int64(f.number)
		default:
			return false
		}
		b = rest
	}
	return true
}

// build makes the event's two allocations: its messages and its bytes.
func (e *event) build() *mvccpb.Event {
	data := make([]byte, e.kv.size()+e.prev.size())
	var block *eventBlock
	if e.prev.present {
		b := new(eventPrevBlock)
		data = e.prev.fill(&b.prev, data)
		b.event.PrevKv = &b.prev
		block = &b.eventBlock
	} else {
		block = new(eventBlock)
	}
	e.kv.fill(&block.kv, data)
	block.event.Type = e.kind
	block.event.Kv = &block.kv
	return &block.event
}

func (kv *keyValue) size() int { return len(kv.key) + len(kv.value) }

// fill sets m, whose key and value it copies to the beginning of data. It returns
// what is left of data.
func (kv *keyValue) fill(m *mvccpb.KeyValue, data []byte) []byte {
	m.Key, data = copyInto(data, kv.key)
	m.Value, data = copyInto(data, kv.value)
	m.CreateRevision = kv.createRevision
	m.ModRevision = kv.modRevision
	m.Version = kv.version
	m.Lease = kv.lease
	return data
}

// copyInto copies b to the beginning of data and returns the copy, without room
// to grow into its neighbour, and what is left of data. An empty field is nil, as
// proto.Unmarshal has it.
func copyInto(data, b []byte) (copied, rest []byte) {
	if len(b) == 0 {
		return nil, data
	}
	n := copy(data, b)
	return data[:n:n], data[n:]
}
