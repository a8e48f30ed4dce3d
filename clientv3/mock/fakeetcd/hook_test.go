package fakeetcd

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMatches(t *testing.T) {
	const method = "/etcdserverpb.KV/Put"
	for pattern, want := range map[string]bool{
		"Put": true, method: true, "*": true, "": false, "put": false, "ut": false, "KV/Put": false, "/etcdserverpb.KV/Range": false,
	} {
		assert.Equal(t, want, matches(pattern, method), "%q", pattern)
	}
}

// TestHookSelection checks which of several hooks each of five puts uses.
func TestHookSelection(t *testing.T) {
	tests := []struct {
		name     string
		register func(c *Cluster, hook func(name string) func(*Call))
		want     []string
	}{
		{"on", func(c *Cluster, hook func(string) func(*Call)) {
			c.On("Put", hook("on"))
		}, []string{"on", "on", "on", "on", "on"}},
		{"the newest on", func(c *Cluster, hook func(string) func(*Call)) {
			c.On("Put", hook("old"))
			c.On("*", hook("new"))
		}, []string{"new", "new", "new", "new", "new"}},
		{"once, in order", func(c *Cluster, hook func(string) func(*Call)) {
			c.Once("Put", hook("first"))
			c.Once("Put", hook("second"))
		}, []string{"first", "second", "", "", ""}},
		{"once before on", func(c *Cluster, hook func(string) func(*Call)) {
			c.Once("Put", hook("once"))
			c.On("Put", hook("on"))
		}, []string{"once", "on", "on", "on", "on"}},
		{"nth", func(c *Cluster, hook func(string) func(*Call)) {
			c.Nth("Put", 3, hook("third"))
			c.Nth("Put", 1, hook("first"))
			c.Nth("Put", 0, hook("zeroth"))
		}, []string{"first", "zeroth", "third", "", ""}},
		{"other methods", func(c *Cluster, hook func(string) func(*Call)) {
			c.On("Range", hook("range"))
			c.On("/etcdserverpb.KV/Put", hook("full name"))
		}, []string{"full name", "full name", "full name", "full name", "full name"}},
		{"removed", func(c *Cluster, hook func(string) func(*Call)) {
			c.On("Put", hook("stays"))
			c.On("Put", hook("goes")).Remove()
			c.Once("Put", hook("goes")).Remove()
		}, []string{"stays", "stays", "stays", "stays", "stays"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, kv := startKV(t)
			var ran string
			tt.register(cluster, func(name string) func(*Call) {
				return func(*Call) { ran = name }
			})
			for i, want := range tt.want {
				ran = ""
				_, err := kv.Put(within(t), put("k", "v"))
				require.NoError(t, err)
				assert.Equal(t, want, ran, "put %d", i+1)
			}
			assert.Equal(t, 5, cluster.PutCount("k"))
		})
	}
}

func TestHookSeesTheCall(t *testing.T) {
	cluster := start(t, 2)
	kv := kvOf(t, cluster.Member(1))
	_, err := kv.Put(within(t), put("k", "1"))
	require.NoError(t, err)

	hook := cluster.On("Put", func(c *Call) {
		assert.Same(t, cluster.Member(1), c.Member)
		assert.Equal(t, "/etcdserverpb.KV/Put", c.Method)
		assert.Equal(t, 2, c.Number)
		assert.Equal(t, []string{"v"}, c.Metadata.Get("k"))
		assert.Equal(t, "k", string(c.Request.(interface{ GetKey() []byte }).GetKey()))
	})
	_, err = kv.Put(outgoing(within(t), "k", "v"), put("k", "2"))
	require.NoError(t, err)
	assert.Equal(t, 1, hook.Ran())
}

func TestRecords(t *testing.T) {
	cluster := start(t, 2)
	first, second := kvOf(t, cluster.Member(0)), kvOf(t, cluster.Member(1))
	cluster.Once("Put", func(c *Call) { c.Answer(nil, rpctypes.ErrGRPCNoLeader) })
	_, err := first.Put(outgoing(within(t), "k", "v"), put("a", "1"))
	require.Error(t, err)
	_, err = second.Range(within(t), get("a"))
	require.NoError(t, err)
	_, err = second.Put(within(t), put("b", "2"))
	require.NoError(t, err)

	calls := cluster.Calls()
	require.Len(t, calls, 3)
	assert.Same(t, cluster.Member(0), calls[0].Member)
	assert.Equal(t, "/etcdserverpb.KV/Put", calls[0].Method)
	assert.Equal(t, []string{"v"}, calls[0].Metadata.Get("k"))
	assert.False(t, calls[0].Executed)
	assert.Equal(t, "/etcdserverpb.KV/Range", calls[1].Method)
	assert.True(t, calls[1].Executed)
	assert.NotEmpty(t, calls[0].Peer)
	assert.Equal(t, calls[1].Peer, calls[2].Peer, "one connection")

	puts := cluster.Calls("Put")
	require.Len(t, puts, 2)
	assert.Equal(t, "b", string(puts[1].Request().(interface{ GetKey() []byte }).GetKey()))
	assert.Len(t, cluster.Calls("Put", "Range"), 3)
	assert.Equal(t, 2, cluster.Count("Put"))
	assert.Equal(t, 3, cluster.Count("*"))
	assert.Zero(t, cluster.Count("Txn"))
	assert.Nil(t, Record{}.Request())
}

func TestWaitEnds(t *testing.T) {
	cluster := start(t, 1)
	require.NoError(t, cluster.Wait(within(t), "Put", 0))
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	require.ErrorIs(t, cluster.Wait(ctx, "Put", 1), context.Canceled)
}

func TestConcurrentCalls(t *testing.T) {
	cluster := start(t, 3)
	cluster.On("Put", func(c *Call) {
		if c.Number%2 == 0 {
			c.Answer(c.Execute())
		}
	})
	var wg sync.WaitGroup
	for i := range 3 {
		kv := kvOf(t, cluster.Member(i))
		for j := range 20 {
			wg.Go(func() {
				_, err := kv.Put(within(t), put(fmt.Sprintf("k%d", j), "v"))
				assert.NoError(t, err)
				cluster.Calls()
			})
		}
	}
	wg.Wait()
	assert.EqualValues(t, 61, cluster.Revision())
	assert.Equal(t, 60, cluster.Count("Put"))
	for j := range 20 {
		assert.Equal(t, 3, cluster.PutCount(fmt.Sprintf("k%d", j)))
	}
}

// Methods unknown to the fake can be scripted; otherwise they are unimplemented.
func TestUnknownService(t *testing.T) {
	cluster := start(t, 1)
	conn := dial(t, cluster.Member(0))
	cluster.Once("/custom.Service/Double", func(c *Call) {
		raw := c.Request.ProtoReflect().GetUnknown()
		in := &wrapperspb.StringValue{}
		assert.NoError(t, proto.Unmarshal(raw, in))
		c.Answer(wrapperspb.String(in.Value+in.Value), nil)
	})
	out := &wrapperspb.StringValue{}
	require.NoError(t, conn.Invoke(within(t), "/custom.Service/Double", wrapperspb.String("ab"), out))
	assert.Equal(t, "abab", out.Value)

	err := conn.Invoke(within(t), "/custom.Service/Double", &emptypb.Empty{}, out)
	assert.Equal(t, codes.Unimplemented, status.Code(err))
}
