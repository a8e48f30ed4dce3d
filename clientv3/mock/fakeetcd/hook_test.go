package fakeetcd

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
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

// TestHookSelection checks which of several hooks each of five puts uses, "-" if none.
func TestHookSelection(t *testing.T) {
	type namer = func(name string) func(*Call)
	for name, tt := range map[string]struct {
		register func(c *Cluster, hook namer)
		want     string
	}{
		"on":               {func(c *Cluster, hook namer) { c.On("Put", hook("on")) }, "on on on on on"},
		"the newest on":    {func(c *Cluster, hook namer) { c.On("Put", hook("old")); c.On("*", hook("new")) }, "new new new new new"},
		"once, in order":   {func(c *Cluster, hook namer) { c.Once("Put", hook("first")); c.Once("Put", hook("second")) }, "first second - - -"},
		"once before on":   {func(c *Cluster, hook namer) { c.Once("Put", hook("once")); c.On("Put", hook("on")) }, "once on on on on"},
		"of other methods": {func(c *Cluster, hook namer) { c.On("Range", hook("range")); c.On("/etcdserverpb.KV/Put", hook("full")) }, "full full full full full"},
		"nth": {func(c *Cluster, hook namer) {
			c.Nth("Put", 3, hook("third"))
			c.Nth("Put", 1, hook("first"))
			c.Nth("Put", 0, hook("zeroth"))
		}, "first zeroth third - -"},
		"removed": {func(c *Cluster, hook namer) {
			c.On("Put", hook("stays"))
			c.On("Put", hook("goes")).Remove()
			c.Once("Put", hook("goes")).Remove()
		}, "stays stays stays stays stays"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, kv := startKV(t)
			var ran string
			tt.register(cluster, func(name string) func(*Call) {
				return func(*Call) { ran = name }
			})
			for i, want := range strings.Fields(tt.want) {
				ran = "-"
				_, err := kv.Put(within(t), put("k", "v"))
				require.NoError(t, err)
				assert.Equal(t, want, ran, "put %d", i+1)
			}
			assert.Equal(t, 5, cluster.PutCount("k"))
		})
	}
}

// A hook and the record show the same of a call.
func TestRecords(t *testing.T) {
	cluster := start(t, 2)
	first, second := kvOf(t, cluster.Member(0)), kvOf(t, cluster.Member(1))
	var seen *Call
	hook := cluster.On("Put", func(c *Call) {
		seen = c
		if c.Number == 1 {
			c.Answer(nil, rpctypes.ErrGRPCNoLeader)
		}
	})
	_, err := first.Put(outgoing(within(t), "k", "v"), put("a", "1"))
	require.Error(t, err)
	_, err = second.Range(within(t), get("a"))
	require.NoError(t, err)
	_, err = second.Put(outgoing(within(t), "k", "w"), put("b", "2"))
	require.NoError(t, err)
	assert.Equal(t, 2, hook.Ran())

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
	assert.True(t, proto.Equal(put("b", "2"), puts[1].Request()))
	assert.True(t, proto.Equal(put("b", "2"), seen.Request))
	assert.Same(t, puts[1].Member, seen.Member)
	assert.Equal(t, puts[1].Method, seen.Method)
	assert.Equal(t, puts[1].Metadata, seen.Metadata)
	assert.Equal(t, 2, seen.Number)

	assert.Len(t, cluster.Calls("Put", "Range"), 3)
	assert.Equal(t, 2, cluster.Count("Put"))
	assert.Equal(t, 3, cluster.Count("*"))
	assert.Zero(t, cluster.Count("Txn"))
	assert.Nil(t, Record{}.Request())
}

// Two connections have different peers, even if one is dialled while the other is.
func TestPeers(t *testing.T) {
	cluster := start(t, 1)
	first, second := kvOf(t, cluster.Member(0)), kvOf(t, cluster.Member(0))
	cluster.OnDial(func(context.Context, *Member) error {
		cluster.OnDial(nil)
		_, err := second.Put(within(t), put("k", "second"))
		return err
	})
	_, err := first.Put(within(t), put("k", "first"))
	require.NoError(t, err)
	calls := cluster.Calls("Put")
	require.Len(t, calls, 2)
	assert.NotEqual(t, calls[0].Peer, calls[1].Peer)
}

func TestWaitEnds(t *testing.T) {
	cluster := start(t, 1)
	require.NoError(t, cluster.Wait(within(t), "Put", 0))
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	require.ErrorIs(t, cluster.Wait(ctx, "Put", 1), context.Canceled)
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

// TestFaults checks what the client sees and what the store holds for each way to end a Put.
func TestFaults(t *testing.T) {
	execute := func(c *Call) proto.Message {
		resp, err := c.Execute()
		assert.NoError(t, err)
		return resp
	}
	tests := []struct {
		name     string
		hook     func(c *Call)
		code     codes.Code
		executed bool
	}{
		{"no fault", func(*Call) {}, codes.OK, true},
		{"executed by the hook", func(c *Call) { c.Answer(c.Execute()) }, codes.OK, true},
		{"executed twice is executed once", func(c *Call) { c.Answer(execute(c), nil); c.Answer(c.Execute()) }, codes.OK, true},
		{"made-up answer", func(c *Call) { c.Answer(&pb.PutResponse{Header: &pb.ResponseHeader{}}, nil) }, codes.OK, false},
		{"error instead of execution", func(c *Call) { c.Answer(nil, rpctypes.ErrGRPCNoLeader) }, codes.Unavailable, false},
		{"error after execution", func(c *Call) { execute(c); c.Answer(nil, rpctypes.ErrGRPCTimeout) }, codes.Unavailable, true},
		{"canceled by the server", func(c *Call) { c.Answer(nil, status.Error(codes.Canceled, "by a proxy")) }, codes.Canceled, false},
		{"deadline of the server", func(c *Call) { c.Answer(nil, context.DeadlineExceeded) }, codes.DeadlineExceeded, false},
		{"no message", func(c *Call) { c.Answer(nil, nil) }, codes.Internal, false},
		{"broken before execution", (*Call).BreakConn, codes.Unavailable, false},
		{"broken after execution", func(c *Call) { execute(c); c.BreakConn() }, codes.Unavailable, true},
		{"broken, then executed", func(c *Call) { c.BreakConn(); execute(c) }, codes.Unavailable, true},
		// The client may reset the stream before it has read the second.
		{"answered twice", func(c *Call) { _ = c.AnswerTwice(execute(c)) }, codes.Internal, true},
		{"reset before execution", func(c *Call) { c.ResetStream(ResetCancel) }, codes.Canceled, false},
		{"reset after execution", func(c *Call) { execute(c); c.ResetStream(ResetInternal) }, codes.Internal, true},
		{"reset as overloaded", func(c *Call) { c.ResetStream(ResetEnhanceYourCalm) }, codes.ResourceExhausted, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, kv := startKV(t)
			hook := cluster.Once("Put", tt.hook)
			_, err := kv.Put(within(t), put("k", "v"))

			assert.Equal(t, tt.code, status.Code(err), "%v", err)
			assert.Equal(t, 1, hook.Ran())
			require.Len(t, cluster.Calls("Put"), 1)

			// The store and the record are final only when the hook has returned.
			_, err = kv.Put(within(t), put("other", "v"))
			require.NoError(t, err, "the client must recover")
			cluster.Close()
			assert.Equal(t, tt.executed, cluster.Calls("Put")[0].Executed)
			applied := 0
			if tt.executed {
				applied = 1
			}
			assert.Equal(t, applied, cluster.PutCount("k"))
		})
	}
}

// The client has received exactly the header when the connection breaks.
func TestBreakAfterHeader(t *testing.T) {
	cluster := start(t, 1)
	cluster.Once("Watch", func(c *Call) {
		assert.NoError(t, c.SendHeader(metadata.Pairs("reached", "yes")))
		c.BreakConn()
	})
	stream, err := pb.NewWatchClient(dial(t, cluster.Member(0))).Watch(within(t))
	require.NoError(t, err)
	header, err := stream.Header()
	require.NoError(t, err)
	assert.Equal(t, []string{"yes"}, header.Get("reached"))
	_, err = stream.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

// The client has received the whole message, of many frames, when the connection breaks.
func TestBreakAfterMessage(t *testing.T) {
	reason := strings.Repeat("x", 1_000_000)
	cluster := start(t, 1)
	cluster.Once("Watch", func(c *Call) {
		assert.NoError(t, c.Send(&pb.WatchResponse{WatchId: 7, CancelReason: reason}))
		c.BreakConn()
	})
	stream, err := pb.NewWatchClient(dial(t, cluster.Member(0))).Watch(within(t))
	require.NoError(t, err)
	resp, err := stream.Recv()
	require.NoError(t, err)
	assert.EqualValues(t, 7, resp.WatchId)
	assert.Equal(t, reason, resp.CancelReason)
	_, err = stream.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

// grpc-go itself sends an unprocessed call once more, and the second refusal is final.
func TestRefusedStreamIsSentAgain(t *testing.T) {
	cluster, kv := startKV(t)
	cluster.Once("Put", func(c *Call) { c.ResetStream(ResetRefused) })
	_, err := kv.Put(within(t), put("k", "v"))
	require.NoError(t, err)
	assert.Equal(t, 2, cluster.Count("Put"))
	assert.Equal(t, 1, cluster.PutCount("k"))

	cluster.On("Put", func(c *Call) { c.ResetStream(ResetRefused) })
	_, err = kv.Put(within(t), put("k", "v"))
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, 4, cluster.Count("Put"))
	assert.Equal(t, 1, cluster.PutCount("k"))
}

func TestHold(t *testing.T) {
	cluster, kv := startKV(t)
	release := make(chan struct{})
	cluster.Once("Put", func(c *Call) { assert.NoError(t, c.Hold(release)) })

	done := beginPut(within(t), t, cluster, kv)
	_, err := kv.Range(within(t), get("k"))
	require.NoError(t, err, "a held call does not delay others")
	assert.Nil(t, cluster.Get("k"))
	assert.Empty(t, done)

	close(release)
	require.NoError(t, <-done)
	assert.Equal(t, "v", string(cluster.Get("k").Value))
}

func TestHoldEndsWithTheCall(t *testing.T) {
	t.Run("the client gives up", func(t *testing.T) {
		cluster, kv := startKV(t)
		held := make(chan error, 1)
		cluster.Once("Put", func(c *Call) {
			held <- c.Hold(nil)
			c.Answer(nil, rpctypes.ErrGRPCCanceled)
		})
		ctx, cancel := context.WithCancel(within(t))
		done := beginPut(ctx, t, cluster, kv)
		cancel()
		assert.Equal(t, codes.Canceled, status.Code(<-done))
		require.ErrorIs(t, <-held, context.Canceled)
		cluster.Close()
		assert.False(t, cluster.Calls("Put")[0].Executed)
	})
	t.Run("the cluster is closed", func(t *testing.T) {
		cluster, kv := startKV(t)
		held := make(chan error, 1)
		cluster.Once("Put", func(c *Call) { held <- c.Hold(nil) })
		done := beginPut(within(t), t, cluster, kv)
		cluster.Close()
		require.Error(t, <-held)
		assert.Equal(t, codes.Unavailable, status.Code(<-done))
	})
}

// A hook that ends its goroutine, like t.FailNow, does not leave the client waiting.
func TestHookThatDoesNotReturn(t *testing.T) {
	cluster, kv := startKV(t)
	cluster.Once("Put", func(*Call) { runtime.Goexit() })
	_, err := kv.Put(within(t), put("k", "v"))
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Zero(t, cluster.PutCount("k"))
}
