package channel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

var errDead = errors.New("the endpoint is dead")

// A cut attempt ends at once, with an error other than its caller's.
func TestCutAttempt(t *testing.T) {
	put, get := goPut, goRange
	for _, tt := range []struct {
		name string
		call func(context.Context, *Caller) *underWay
		sent bool
		// again is whether the call is repeated.
		again bool
	}{
		{"a write that may have been sent", put, true, false},
		{"a write that was never sent", put, false, true},
		{"a read that may have been sent", get, true, true},
		{"a read that was never sent", get, false, true},
	} {
		subtestWithHeldConn(t, tt.name, func(t *testing.T, conn *heldConn) {
			w := new(witness)
			c := newTestCaller(conn, nil)
			c.observer = w
			start := time.Now()
			call := tt.call(t.Context(), c)
			first := conn.latest(t, 1)
			if !tt.sent {
				first.Ended(false)
			}
			first.Cut(errDead)
			if !tt.again {
				require.True(t, call.ended())
				isUnknown(codes.Unavailable)(t, call.err)
				require.ErrorIs(t, call.err, rpctypes.ErrTimeout)
				assert.Equal(t, "etcdserver: request timed out: "+errDead.Error(), status.Convert(call.err).Message())
				require.Len(t, w.unknown, 1)
				assert.Equal(t, "a", w.unknown[0].Endpoint)
				assert.Equal(t, pb.KV_Put_FullMethodName, w.unknown[0].Method)
				return
			}
			time.Sleep(10 * time.Millisecond)
			second := conn.latest(t, 2)
			assert.Equal(t, conn.endpoints[:1], second.Avoid)
			second.answer <- nil
			require.True(t, call.ended())
			require.NoError(t, call.err)
			assert.LessOrEqual(t, time.Since(start), 10*time.Millisecond)
			assert.Empty(t, w.unknown)
			require.Len(t, w.retries, 1)
			assert.Equal(t, "a", w.retries[0].Endpoint)
			require.Len(t, w.failovers, 1)
			assert.Equal(t, observe.Failover{
				Method: w.retries[0].Method, From: "a", To: "b", Err: w.retries[0].Err,
			}, w.failovers[0])
			assert.ErrorContains(t, w.failovers[0].Err, errDead.Error())
		})
	}
}

// The server's answer, and the end of the caller's context, take precedence over a cut.
func TestPrecedenceOverACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &scriptedConn{
			script: []outcome{answered(status.Error(codes.PermissionDenied, "etcdserver: permission denied"))},
			during: func(ctx context.Context) { attemptFrom(ctx).Cut(errDead) },
		}
		assert.Equal(t, codes.PermissionDenied, status.Code(rangeOn(t.Context(), newTestCaller(conn, nil))))

		ctx, cancel := context.WithCancel(t.Context())
		conn = &scriptedConn{script: []outcome{answered(status.Error(codes.Canceled, "context canceled"))}, during: func(ctx context.Context) {
			attemptFrom(ctx).Cut(errDead)
			cancel()
		}}
		assert.Equal(t, codes.Canceled, status.Code(rangeOn(ctx, newTestCaller(conn, nil))))
		assert.Equal(t, 1, conn.calls)
	})
}

// An ended attempt no longer depends on its caller's context, and cannot be restarted.
func TestAttemptsAreReleased(t *testing.T) {
	conn := &scriptedConn{script: []outcome{unsent, success}}
	var attempts []*attempt
	conn.during = func(ctx context.Context) { attempts = append(attempts, attemptFrom(ctx)) }
	require.NoError(t, rangeOn(t.Context(), newTestCaller(conn, nil)))
	require.Len(t, attempts, 2)
	for _, a := range attempts {
		assert.ErrorIs(t, a.ctx.Err(), context.Canceled)
		assert.Equal(t, codes.Canceled, status.Code(a.Picked(nil)))
	}
}

func TestCutStream(t *testing.T) {
	m := startMember(t, "http://", nil)
	c := newTestChannel(t, Config{Endpoints: []string{m.endpoint}})
	ctx, retrier := withDeadline(t), watchRetrier(c)
	ws, err := watch(ctx, retrier)
	require.NoError(t, err)
	retrier.opened.Cut(errDead)
	_, err = ws.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, errDead.Error())
	assert.Equal(t, retry.Ambiguous, retrier.classify(ctx, err))
	require.NoError(t, retrier.Next(ctx, err))
	_, err = watch(ctx, retrier)
	require.NoError(t, err)
}

// A stream whose connection is lost before the server received it ends; gRPC does not move it.
func TestOpenedStreamDoesNotMove(t *testing.T) {
	p := newPeers(t, "a", "b")
	a := p.pick()
	a.Pin()
	_, err := p.pickFor(a)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, retry.Ambiguous, retry.Classify(err, retry.Evidence{Sent: true}))

	p.become("a", connectivity.TransientFailure)
	p.become("b", connectivity.TransientFailure)
	_, err = p.pickFor(a)
	require.Error(t, err)
	_, err = a.outcome("", status.FromContextError(a.ctx.Err()).Err())
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "before the server received the stream")
}
