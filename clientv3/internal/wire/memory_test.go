package wire

import (
	"bytes"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/mem"
)

// TestAllocations: the response, its header and its list of events are one each,
// and every event costs two.
func TestAllocations(t *testing.T) {
	for _, prevKV := range []bool{false, true} {
		for _, events := range []int{1, 100, 1000} {
			data := encodedEvents(t, events, prevKV)
			codec := watchCodec()
			var last *pb.WatchResponse
			got := testing.AllocsPerRun(20, func() {
				last = new(pb.WatchResponse)
				if err := codec.Unmarshal(data, last); err != nil {
					t.Error(err)
				}
			})
			require.Len(t, last.Events, events)
			assert.LessOrEqual(t, got, float64(3+2*events), "prevKV=%t, %d events", prevKV, events)
		}
	}
}

// TestAllocationsOfLies: what a response claims to hold costs nothing until it is
// there.
func TestAllocationsOfLies(t *testing.T) {
	lies := bytes.Repeat([]byte{responseEvents, 0x80, 0x80, 0x80, 0x40}, 1000) // of 128 MiB each
	for name, data := range map[string][]byte{
		"at once":          lies,
		"after an event":   append(content(11, content(2, text(1, "k"))), lies...),
		"inside an event":  content(11, content(2, lies)),
		"events that lack": message(content(11, content(2)), content(11, lies)),
	} {
		t.Run(name, func(t *testing.T) {
			assert.False(t, decodeWatchResponse(data, new(pb.WatchResponse)))
			allocs := testing.AllocsPerRun(5, func() { decodeWatchResponse(data, new(pb.WatchResponse)) })
			assert.LessOrEqual(t, allocs, 4.0)
		})
	}
}

// TestEventsAreExact: the list of events has no room that is not used.
func TestEventsAreExact(t *testing.T) {
	m := assertDecodesAsProto(t, encodedEvents(t, 137, false)[0].ReadOnlyData())
	assert.Len(t, m.Events, 137)
	assert.Equal(t, 137, cap(m.Events))
}

// TestAppendToField: a program may append to what it got.
func TestAppendToField(t *testing.T) {
	data := content(11,
		content(2, text(1, "key"), text(5, "value")),
		content(3, text(1, "KEY"), text(5, "VALUE")))
	m := new(pb.WatchResponse)
	require.NoError(t, watchCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m))
	ev := m.Events[0]
	for _, b := range [][]byte{ev.Kv.Key, ev.Kv.Value, ev.PrevKv.Key, ev.PrevKv.Value} {
		assert.Equal(t, len(b), cap(b))
		_ = append(b, "overwritten"...)
	}
	assert.Equal(t, "key value KEY VALUE",
		string(ev.Kv.Key)+" "+string(ev.Kv.Value)+" "+string(ev.PrevKv.Key)+" "+string(ev.PrevKv.Value))
}

// TestEventsAreApart: an event that is kept does not keep the others in memory.
func TestEventsAreApart(t *testing.T) {
	m := new(pb.WatchResponse)
	require.NoError(t, watchCodec().Unmarshal(encodedEvents(t, 100, true), m))
	kept := m.Events[50]
	var others []weak.Pointer[mvccpb.Event]
	var keys []weak.Pointer[byte]
	for _, ev := range m.Events {
		if ev != kept {
			others = append(others, weak.Make(ev))
			keys = append(keys, weak.Make(&ev.Kv.Key[0]))
		}
	}
	m = nil
	runtime.GC()
	for i := range others {
		assert.Nil(t, others[i].Value(), "event %d", i)
		assert.Nil(t, keys[i].Value(), "key of event %d", i)
	}
	assert.NotEmpty(t, kept.Kv.Key)
	runtime.KeepAlive(kept)
}

// countingPool counts the buffers that come back.
type countingPool struct{ returned int }

func (*countingPool) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (p *countingPool) Put(*[]byte)     { p.returned++ }

// TestBuffersAreReturned: once gRPC has freed its buffers nobody holds them.
func TestBuffersAreReturned(t *testing.T) {
	event := content(11, content(2, text(1, "key"), content(5, make([]byte, 4096))))
	for _, tt := range []struct {
		name string
		data []byte
		fail bool
	}{
		{name: "decoded here", data: event},
		{name: "left to proto", data: message(event, number(15, 1))},
		{name: "invalid", data: append(event, responseEvents, 5), fail: true},
	} {
		for _, parts := range []int{1, 2} {
			t.Run(tt.name, func(t *testing.T) {
				pool := new(countingPool)
				var data mem.BufferSlice
				for i := range parts {
					part := tt.data[i*len(tt.data)/parts : (i+1)*len(tt.data)/parts]
					data = append(data, mem.NewBuffer(&part, pool))
				}
				err := watchCodec().Unmarshal(data, new(pb.WatchResponse))
				assert.Equal(t, tt.fail, err != nil, "%v", err)
				assert.Zero(t, pool.returned)
				data.Free()
				assert.Equal(t, parts, pool.returned)
			})
		}
	}
}
