package clientv3_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	. "github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// maxPinned is how much more memory an event may hold than the part of it that a program keeps.
const maxPinned = 512

// TestRetainedPartsOfEventsPinLittleMemory: a program that keeps a part of an event does not keep
// its whole message in memory.
func TestRetainedPartsOfEventsPinLittleMemory(t *testing.T) {
	const size, count = 10 << 10, 200
	keepOfEvents(t, count, size, func(*Event) any { return nil }) // what the first client of a process allocates stays
	for _, tt := range []struct {
		name string
		keep func(*Event) any
		held int64 // bytes of the part
	}{
		{"a key of one byte", func(ev *Event) any { return ev.Kv.Key }, 1},
		{"a pair without the previous one", func(ev *Event) any { return ev.Kv }, size},
		{"a previous value", func(ev *Event) any { return ev.PrevKv.Value }, size},
		{"an event with the previous pair", func(ev *Event) any { return ev }, 2 * size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := liveBytes()
			kept := keepOfEvents(t, count, size, tt.keep)
			var pinned int64
			require.Eventually(t, func() bool {
				pinned = (liveBytes()-before)/count - tt.held
				return pinned <= maxPinned
			}, watchTimeout, 20*time.Millisecond, "bytes beyond the part of each event")
			t.Logf("%d bytes beyond the part", pinned)
			runtime.KeepAlive(kept)
		})
	}
}

// keepOfEvents watches puts of large values and keeps a part of each event. Cluster and client are
// closed when it returns.
func keepOfEvents(t *testing.T, count, size int, keep func(*Event) any) []any {
	t.Helper()
	cluster, err := fakeetcd.Start(1) // a cleanup of the test would keep it in memory
	require.NoError(t, err)
	defer cluster.Close()
	c, err := New(Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()})
	require.NoError(t, err)
	defer c.Close()
	value := strings.Repeat("v", size)
	first := clienttest.Put(t, cluster, "k", value)
	for range count {
		clienttest.Put(t, cluster, "k", value)
	}
	kept := make([]any, 0, count)
	w := c.Watch(clienttest.Within(t), "k", WithRev(first+1), WithPrevKV())
	for len(kept) < count {
		resp, open := <-w
		require.True(t, open)
		require.NoError(t, resp.Err())
		for _, ev := range resp.Events {
			kept = append(kept, keep(ev))
		}
	}
	return kept
}

// liveBytes returns the size of reachable memory. Buffers in a sync.Pool survive two collections.
func liveBytes() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// countingCodec is protobuf's, and counts the watch responses that it decodes.
type countingCodec struct {
	encoding.CodecV2
	decoded *atomic.Int64
}

func (c countingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*pb.WatchResponse); ok {
		c.decoded.Add(1)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// TestWatchUsesCodecOfProgram: a codec that a program forces is used for watches too.
func TestWatchUsesCodecOfProgram(t *testing.T) {
	cluster := clienttest.Start(t, 1)
	codec := countingCodec{encoding.GetCodecV2(protocodec.Name), new(atomic.Int64)}
	c := clienttest.Connect(t, cluster, Config{DialOptions: append(cluster.DialOptions(), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec)))})

	w := c.Watch(clienttest.Within(t), "k")
	clienttest.Put(t, cluster, "k", "v")
	resp := <-w
	require.Len(t, resp.Events, 1)
	assert.Equal(t, "v", string(resp.Events[0].Kv.Value))
	assert.GreaterOrEqual(t, codec.decoded.Load(), int64(2), "the reply to the create, and the event")
}
