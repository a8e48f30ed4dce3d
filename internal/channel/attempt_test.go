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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/hedge"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// hedgedRead starts a read whose first attempt is overdue.
func hedgedRead(ctx context.Context, t *testing.T, c *Caller, conn *heldConn) (call *underWay, first, second *held) {
	t.Helper()
	call = goRange(ctx, c)
	first = conn.latest(t, 1)
	first.Overdue()
	second = conn.latest(t, 2)
	return call, first, second
}

func TestHedgeWins(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		w := new(recorder)
		c := newTestCaller(conn, nil)
		c.observer = w
		call, first, second := hedgedRead(t.Context(), t, c, conn)
		assert.Equal(t, conn.endpoints[:1], second.Avoid)
		assert.True(t, second.AvoidStrictly)
		assert.Equal(t, first.Shape, second.Shape)
		assert.NotSame(t, first.reply, second.reply)
		assert.NotSame(t, first.req, second.req)

		second.count(7)
		require.True(t, call.ended())
		require.NoError(t, call.err)
		assert.EqualValues(t, 7, call.count())
		assert.Equal(t, hedge.ErrOutrun, context.Cause(first.ctx))
		event := observe.Hedge{Method: pb.KV_Range_FullMethodName, First: "a", Second: "b"}
		assert.Equal(t, []observe.Hedge{event}, w.sent)
		assert.Equal(t, []observe.Hedge{event}, w.won)
		assert.Empty(t, w.retries)
		assert.Len(t, conn.attempts(), 2)
	})
}

func TestPrimaryWins(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		w := new(recorder)
		c := newTestCaller(conn, nil)
		c.observer = w
		call, first, second := hedgedRead(t.Context(), t, c, conn)
		first.count(3)
		require.True(t, call.ended())
		require.NoError(t, call.err)
		assert.EqualValues(t, 3, call.count())
		assert.Equal(t, hedge.ErrNotNeeded, context.Cause(second.ctx))
		assert.Empty(t, w.won)
	})
}

// The end of a call whose attempts fail, in the order of their failures.
func TestErrorsOfHedgedReads(t *testing.T) {
	unavailable := status.Error(codes.Unavailable, "error reading from server: EOF")
	internal := status.Error(codes.Internal, "boom")
	const first, second = 0, 1
	type step struct {
		attempt int
		err     error
	}
	for _, tt := range []struct {
		name  string
		steps []step
		// The call ends with want, or continues with again more attempts.
		want  error
		again int
	}{
		{"waits for the first", []step{{second, unavailable}, {first, nil}}, nil, 0},
		{"waits for the second", []step{{first, unavailable}, {second, nil}}, nil, 0},
		{"no leader, then an answer", []step{{first, rpctypes.ErrGRPCNoLeader}, {second, nil}}, nil, 0},
		{"a final error of the first", []step{{first, rpctypes.ErrGRPCPermissionDenied}}, rpctypes.ErrGRPCPermissionDenied, 0},
		{"the first is compacted", []step{{first, rpctypes.ErrGRPCCompacted}}, rpctypes.ErrGRPCCompacted, 0},
		{"the second lags behind", []step{{second, rpctypes.ErrGRPCFutureRev}, {first, nil}}, nil, 0},
		{"a final error of the second, then the first breaks", []step{{second, rpctypes.ErrGRPCFutureRev}, {first, unavailable}}, nil, 1},
		{"both break", []step{{first, unavailable}, {second, unavailable}}, nil, 1},
		{"both break, the second first", []step{{second, unavailable}, {first, unavailable}}, nil, 1},
		{"an error that is not retryable still waits", []step{{first, internal}, {second, nil}}, nil, 0},
		{"an error that is not retryable is returned", []step{{first, internal}, {second, unavailable}}, internal, 0},
	} {
		grpctest.Bubble(t, tt.name, func(t *testing.T) {
			conn := newHeldConn("a", "b", "c")
			c := newTestCaller(conn, nil)
			call, _, _ := hedgedRead(t.Context(), t, c, conn)
			attempts := conn.attempts()
			for i, s := range tt.steps {
				require.False(t, call.ended(), "before step %d", i)
				attempts[s.attempt].answer <- s.err
			}
			if tt.again > 0 {
				require.False(t, call.ended())
				time.Sleep(time.Second)
				third := conn.latest(t, 2+tt.again)
				assert.ElementsMatch(t, conn.endpoints[:2], third.Avoid)
				third.Overdue()
				assert.Len(t, conn.attempts(), 3, "one hedge for a call")
				third.count(1)
			}
			require.True(t, call.ended())
			assert.Equal(t, tt.want, call.err)
		})
	}
}

func TestNonFatalStatusCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := retry.ParseServiceConfig(`{"methodConfig": [{"name": [{}],
			"hedgingPolicy": {"nonFatalStatusCodes": ["OUT_OF_RANGE"]}}]}`)
		require.NoError(t, err)
		conn := newHeldConn("a", "b")
		call, first, second := hedgedRead(t.Context(), t, newTestCaller(conn, config), conn)
		first.answer <- rpctypes.ErrGRPCCompacted
		require.False(t, call.ended())
		second.count(2)
		require.True(t, call.ended())
		assert.NoError(t, call.err)
	})
}

// The end of the caller's context ends both attempts with the context's error.
func TestCancelEndsBothAttempts(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		ctx, cancel := context.WithCancel(t.Context())
		call, _, second := hedgedRead(ctx, t, newTestCaller(conn, nil), conn)
		cancel()
		require.True(t, call.ended())
		assert.Equal(t, codes.Canceled, status.Code(call.err))
		assert.Error(t, second.ctx.Err())
		assert.Len(t, conn.attempts(), 2)
	})
}

func TestDeadlineWhileOnlyTheHedgeRuns(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		call, first, _ := hedgedRead(grpctest.Within(t, time.Second), t, newTestCaller(conn, nil), conn)
		first.answer <- status.Error(codes.Unavailable, "gone")
		require.False(t, call.ended())
		<-call.done
		assert.Equal(t, codes.DeadlineExceeded, status.Code(call.err))
	})
}

func TestHedgingBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := retry.DefaultConfig()
		config.HedgingThrottling = retry.Throttling{MaxTokens: 3, TokenRatio: 0.25}
		conn := newHeldConn("a", "b")
		c := newTestCaller(conn, config)
		hedged := func() bool {
			before := len(conn.attempts())
			call := goRange(t.Context(), c)
			first := conn.latest(t, before+1)
			first.Overdue()
			made := len(conn.attempts()) - before
			first.count(1)
			require.True(t, call.ended())
			return made == 2
		}
		var sent []bool
		for range 12 {
			sent = append(sent, hedged())
		}
		assert.Equal(t, []bool{true, true, false, false, false, true, false, false, false, true, false, false}, sent,
			"each losing hedge halves the budget")
	})
}

// A call that is overdue while the budget is empty waits for the token of a hedge that wins.
func TestOverdueCallsWaitForTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := retry.DefaultConfig()
		config.HedgingThrottling = retry.Throttling{MaxTokens: 1, TokenRatio: 0.001}
		conn := newHeldConn("a", "b")
		c := newTestCaller(conn, config)
		one, two, three := goRange(t.Context(), c), goRange(t.Context(), c), goRange(t.Context(), c)
		conn.latest(t, 3)
		first := conn.attempts()
		for _, a := range first {
			a.Overdue()
		}
		hedge := conn.latest(t, 4)
		first[1].count(1) // no hedge is sent for a call that has ended
		synctest.Wait()
		hedge.count(1)
		conn.latest(t, 5).count(1)
		for _, call := range []*underWay{one, two, three} {
			require.True(t, call.ended())
			require.NoError(t, call.err)
		}
		assert.Len(t, conn.attempts(), 5)
	})
}

func TestCallsThatAreNotHedged(t *testing.T) {
	off := must(retry.ParseServiceConfig(`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 1}}]}`))
	const get = pb.KV_Range_FullMethodName
	for name, tt := range map[string]struct {
		config     *retry.Config
		method     string
		req, reply any
		opts       []grpc.CallOption
	}{
		"a put":                   {nil, pb.KV_Put_FullMethodName, &pb.PutRequest{}, &pb.PutResponse{}, nil},
		"a header for the caller": {nil, get, &pb.RangeRequest{}, &pb.RangeResponse{}, []grpc.CallOption{grpc.WaitForReady(true), grpc.Header(new(metadata.MD))}},
		"a peer for the caller":   {nil, get, &pb.RangeRequest{}, &pb.RangeResponse{}, []grpc.CallOption{grpc.Peer(new(peer.Peer))}},
		"disabled":                {off, get, &pb.RangeRequest{}, &pb.RangeResponse{}, nil},
		"not protobuf":            {nil, get, &pb.RangeRequest{}, new([]byte), nil},
	} {
		subtestWithHeldConn(t, name, func(t *testing.T, conn *heldConn) {
			call := goCall(t.Context(), newTestCaller(conn, tt.config), tt.method, tt.req, tt.reply, tt.opts...)
			first := conn.latest(t, 1)
			first.Overdue()
			assert.Len(t, conn.attempts(), 1)
			first.answer <- nil
			require.True(t, call.ended())
			require.NoError(t, call.err)
		})
	}
}

// A policy's delay is the minimum; a read that is answered earlier is not hedged.
func TestHedgingDelay(t *testing.T) {
	config := must(retry.ParseServiceConfig(`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"hedgingDelay": "0.3s"}}]}`))
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		c := newTestCaller(conn, config)
		call := goRange(t.Context(), c)
		first := conn.latest(t, 1)
		time.Sleep(100 * time.Millisecond)
		first.Overdue()
		first.Overdue()
		time.Sleep(199 * time.Millisecond)
		require.Len(t, conn.attempts(), 1)
		time.Sleep(time.Millisecond)
		conn.latest(t, 2).count(1)
		require.True(t, call.ended())

		call = goRange(t.Context(), c)
		third := conn.latest(t, 3)
		third.Overdue()
		third.count(1)
		require.True(t, call.ended())
		time.Sleep(time.Second)
		assert.Len(t, conn.attempts(), 3)
	})
}

// After the call, the caller may change its request while the hedge still runs.
func TestHedgeHasItsOwnRequest(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		c := newTestCaller(conn, nil)
		req := &pb.RangeRequest{Key: []byte("k")}
		call := goCall(t.Context(), c, pb.KV_Range_FullMethodName, req, &pb.RangeResponse{})
		first := conn.latest(t, 1)
		first.Overdue()
		second := conn.latest(t, 2)
		first.answer <- nil
		require.True(t, call.ended())
		req.Key[0] = 'x'
		assert.Equal(t, "k", string(second.req.(*pb.RangeRequest).Key))
	})
}

// A canceled loser costs no token of the retry budget.
func TestLosersAreNoFailures(t *testing.T) {
	withHeldConn(t, func(t *testing.T, conn *heldConn) {
		c := newTestCaller(conn, nil)
		c.hedges.Budget = nil // no bound
		for i := range 200 {
			call := goRange(t.Context(), c)
			conn.latest(t, 2*i+1).Overdue()
			conn.latest(t, 2*i+2).count(1)
			require.True(t, call.ended())
			require.NoError(t, call.err)
		}
		assert.True(t, c.budget.Take())
	})
}

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
			w := new(recorder)
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
	ws := must(watch(ctx, retrier))
	retrier.opened.Cut(errDead)
	_, err := ws.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, errDead.Error())
	assert.Equal(t, retry.Ambiguous, retrier.classify(ctx, err))
	require.NoError(t, retrier.Next(ctx, err))
	must(watch(ctx, retrier))
}

// A stream whose connection is lost before the server received it ends; gRPC does not move it.
func TestOpenedStreamDoesNotMove(t *testing.T) {
	p := newFakeClientConn(t, "a", "b")
	a := p.pick()
	a.Pin()
	_, err := p.pickFor(a)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, retry.Ambiguous, retry.Classify(err, retry.Evidence{Sent: true}))

	p.setState("a", connectivity.TransientFailure)
	p.setState("b", connectivity.TransientFailure)
	_, err = p.pickFor(a)
	require.Error(t, err)
	_, err = a.outcome("", status.FromContextError(a.ctx.Err()).Err())
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "before the server received the stream")
}
