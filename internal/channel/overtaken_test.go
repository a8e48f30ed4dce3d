package channel

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// loseCall makes the cluster lose the next call of a method.
func loseCall(cluster *fakeetcd.Cluster, method string) {
	cluster.Once(method, func(call *fakeetcd.Call) { _ = call.Hold(nil) })
}

// goCompact starts a compaction.
func goCompact(ctx context.Context, c *Caller) *underWay {
	return goCall(ctx, c, pb.KV_Compact_FullMethodName, &pb.CompactionRequest{}, &pb.CompactionResponse{})
}

// A write that is lost with its leader ends as soon as its member serves under the next one.
func TestWriteLostWithItsLeaderEndsUnderTheNextOne(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		lost   func(context.Context, *Caller) *underWay
		work   func(*testing.T, *Channel)
		ends   bool
	}{
		"reads show the new term": {"Put", goPut, func(t *testing.T, c *Channel) { require.NoError(t, readK(t, c)) }, true},
		"writes show it":          {"Put", goPut, func(t *testing.T, c *Channel) { require.NoError(t, putK(t, c, time.Second)) }, true},
		"local reads do not": {"Put", goPut, func(t *testing.T, c *Channel) {
			must(pb.NewKVClient(c).Range(t.Context(), &pb.RangeRequest{Key: []byte("k"), Serializable: true}))
		}, false},
		"compactions may be long": {"Compact", goCompact, func(t *testing.T, c *Channel) { require.NoError(t, readK(t, c)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder) {
				loseCall(cluster, tt.method)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				write := tt.lost(ctx, c.Caller)
				time.Sleep(3 * time.Second)
				require.False(t, write.ended(), "it is late, and not overtaken")
				cluster.SetLeader(cluster.Member(1))
				for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; time.Sleep(5 * time.Millisecond) {
					tt.work(t, c)
				}
				assert.Equal(t, tt.ends, write.ended())
				if !tt.ends {
					cancel()
					require.True(t, write.ended())
					return
				}
				isUnknown(codes.Unavailable)(t, write.err)
				assert.ErrorContains(t, write.err, "the leader changed")
				assert.Len(t, w.unknown, 1)
			})
		})
	}
}

// A write that an interceptor holds back is as old as its pick.
func TestWriteSentInTheNewTermIsNotOvertaken(t *testing.T) {
	const commit = 400 * time.Millisecond
	var limits atomic.Bool
	limiter := func(cfg *Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if method == pb.KV_Put_FullMethodName && limits.Load() {
					time.Sleep(4 * time.Second)
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
	}
	inBubble(t, limiter, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		limits.Store(true)
		cluster.On("Put", func(call *fakeetcd.Call) {
			time.Sleep(commit)
			_, _ = call.Execute()
		})
		write := goPut(t.Context(), c.Caller)
		time.Sleep(500 * time.Millisecond)
		cluster.SetLeader(cluster.Member(1))
		for !write.ended() {
			require.NoError(t, readK(t, c))
			time.Sleep(5 * time.Millisecond)
		}
		assert.NoError(t, write.err)
	})
}

// Calls to a named member may take long.
func TestWriteToANamedMemberIsNotOvertaken(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, _ *recorder) {
		named := must(c.At(cluster.Endpoints()[0]))
		loseCall(cluster, "Put")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- put(ctx, named) }()
		time.Sleep(time.Second)
		cluster.SetLeader(cluster.Member(1))
		for range 100 {
			require.NoError(t, get(t, named))
			require.NoError(t, readK(t, c))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		assert.Empty(t, done)
	})
}

// A Txn that may be repeated, or a grant, is sent again under the next leader if it was lost with its own.
func TestRepeatableTxnLostWithItsLeader(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *recorder) {
		c.config.Hedging.MaxAttempts = 1
		var unsure atomic.Bool
		for range 30 { // it is known how long they take
			require.True(t, goRepeatable(t.Context(), c.Caller, &unsure).ended())
			time.Sleep(time.Millisecond)
		}
		require.False(t, unsure.Load())
		loseCall(cluster, "Txn")
		call := goRepeatable(t.Context(), c.Caller, &unsure)
		loseCall(cluster, "LeaseGrant")
		grant := goCall(t.Context(), c.Caller, pb.Lease_LeaseGrant_FullMethodName, &pb.LeaseGrantRequest{ID: 7, TTL: 60}, &pb.LeaseGrantResponse{})
		time.Sleep(3 * time.Second)
		require.False(t, call.ended())
		require.False(t, grant.ended())
		cluster.SetLeader(cluster.Member(1))
		for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; time.Sleep(5 * time.Millisecond) {
			require.NoError(t, readK(t, c))
		}
		require.True(t, call.ended())
		require.NoError(t, call.err)
		require.True(t, grant.ended(), "the first attempt may have granted it")
		require.True(t, unsure.Load())
		require.Empty(t, w.unknown)
	})
}
