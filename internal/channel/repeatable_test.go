package channel

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// goRepeatable starts a Txn that writes and may be repeated.
func goRepeatable(ctx context.Context, c *Caller, unsure *atomic.Bool) *underWay {
	req := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k")}}}}}
	return goCall(ctx, c, pb.KV_Txn_FullMethodName, req, &pb.TxnResponse{}, Repeatable(unsure))
}

// A Txn that may be repeated is so after any fault, and says whether it may have been executed.
func TestRepeatableTxn(t *testing.T) {
	broken := status.Error(codes.Unavailable, "error reading from server: EOF")
	for name, tt := range map[string]struct {
		ends   []error
		unsure bool
	}{
		"answered":              {[]error{nil}, false},
		"lost, then answered":   {[]error{broken, nil}, true},
		"refused":               {[]error{rpctypes.ErrGRPCPermissionDenied}, false},
		"lost, then refused":    {[]error{broken, rpctypes.ErrGRPCPermissionDenied}, true},
		"no leader, then one":   {[]error{rpctypes.ErrGRPCNoLeader, nil}, false},
		"it may be executed":    {[]error{rpctypes.ErrGRPCNoSpace}, true},
		"not retryable, but so": {[]error{status.Error(codes.Internal, "boom")}, true},
	} {
		subtestWithHeldConn(t, name, func(t *testing.T, conn *heldConn) {
			var unsure atomic.Bool
			call := goRepeatable(t.Context(), newTestCaller(conn, nil), &unsure)
			for i, err := range tt.ends {
				attempt := conn.latest(t, i+1)
				assert.False(t, attempt.Write)
				assert.True(t, attempt.Prompt)
				attempt.answer <- err
				time.Sleep(time.Second)
			}
			require.True(t, call.ended())
			require.Equal(t, tt.ends[len(tt.ends)-1], call.err)
			require.Equal(t, tt.unsure, unsure.Load())
		})
	}
}

func TestRepeatableTxnIsHedged(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		var unsure atomic.Bool
		call := goRepeatable(t.Context(), newTestCaller(conn, nil), &unsure)
		conn.latest(t, 1).Overdue()
		conn.latest(t, 2).answer <- nil
		require.True(t, call.ended())
		require.NoError(t, call.err)
		require.True(t, unsure.Load(), "the first may be executed")
	})
}

func TestContextOfARepeatableTxnEnds(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		ctx, cancel := context.WithCancel(t.Context())
		var unsure atomic.Bool
		call := goRepeatable(ctx, newTestCaller(conn, nil), &unsure)
		conn.latest(t, 1)
		cancel()
		require.True(t, call.ended())
		require.True(t, unsure.Load())
	})
}

// A Txn that is lost with its leader is sent again under the next one.
func TestRepeatableTxnLostWithItsLeader(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, cluster *fakeetcd.Cluster, c *Channel, w *witness) {
		c.config.Hedging.MaxAttempts = 1
		var unsure atomic.Bool
		for range 30 { // it is known how long they take
			require.True(t, goRepeatable(t.Context(), c.Caller, &unsure).ended())
			time.Sleep(time.Millisecond)
		}
		require.False(t, unsure.Load())
		loseCall(cluster, "Txn")
		call := goRepeatable(t.Context(), c.Caller, &unsure)
		time.Sleep(3 * time.Second)
		require.False(t, call.ended())
		cluster.SetLeader(cluster.Member(1))
		for begin := time.Now(); time.Since(begin) < 400*time.Millisecond; time.Sleep(5 * time.Millisecond) {
			require.NoError(t, readK(t, c))
		}
		require.True(t, call.ended())
		require.NoError(t, call.err)
		require.True(t, unsure.Load())
		require.Empty(t, w.unknown)
	})
}
