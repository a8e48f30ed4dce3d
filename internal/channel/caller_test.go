package channel

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/retry"
)

// outcome is the scripted end of an attempt.
type outcome struct {
	err    error
	picked bool
	sent   bool
	ep     *balancer.Endpoint
}

var (
	broken   = outcome{err: status.Error(codes.Unavailable, "error reading from server: EOF"), picked: true, sent: true}
	unsent   = outcome{err: status.Error(codes.Unavailable, "transport is closing"), picked: true}
	unpicked = outcome{err: status.Error(codes.Unavailable, "unknown picker")}
	success  = outcome{picked: true, sent: true}
)

func answered(err error) outcome { return outcome{err: err, picked: true, sent: true} }

// scriptedConn returns outcomes in turn, and repeats the last one.
type scriptedConn struct {
	grpc.ClientConnInterface
	script []outcome
	calls  int
	during func(ctx context.Context)
}

func (c *scriptedConn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	o := c.script[min(c.calls, len(c.script)-1)]
	c.calls++
	a := attemptFrom(ctx)
	switch {
	case !o.picked:
	case o.sent:
		_ = a.Picked(o.ep)
	default:
		a.NotPicked()
	}
	if c.during != nil {
		c.during(ctx)
	}
	return o.err
}

func newTestCaller(conn grpc.ClientConnInterface, config *retry.Config) *Caller {
	client := newClient(Config{
		Retry:  config,
		Login:  func() Login { return Login{} },
		Logger: zap.NewNop,
	})
	return client.newCaller(conn, func() int { return 3 })
}

func TestWriteIsRepeatedOnlyIfNeverSent(t *testing.T) {
	put := &pb.PutRequest{Key: []byte("k")}
	for name, tc := range map[string]struct {
		script []outcome
		calls  int
		check  func(t *testing.T, err error)
	}{
		"connection broken":           {[]outcome{broken}, 1, isUnknown(codes.Unavailable)},
		"pick not observed":           {[]outcome{unpicked}, 1, isUnknown(codes.Unavailable)},
		"server's Canceled":           {[]outcome{answered(status.Error(codes.Canceled, "context canceled"))}, 1, isUnknown(codes.Canceled)},
		"server's DeadlineExceeded":   {[]outcome{answered(status.Error(codes.DeadlineExceeded, "context deadline exceeded"))}, 1, isUnknown(codes.DeadlineExceeded)},
		"never sent, then success":    {[]outcome{unsent, unsent, success}, 3, isNil},
		"never sent, then broken":     {[]outcome{unsent, broken, success}, 2, isUnknown(codes.Unavailable)},
		"overloaded, then success":    {[]outcome{answered(rpctypes.ErrGRPCRequestTooManyRequests), success}, 2, isNil},
		"closed after sending":        {[]outcome{answered(ErrClosed)}, 1, isUnknown(codes.Canceled)},
		"closed before sending":       {[]outcome{{err: ErrClosed, picked: true}}, 1, is(ErrClosed)},
		"a definite failure":          {[]outcome{answered(rpctypes.ErrGRPCLeaseNotFound), success}, 1, is(rpctypes.ErrGRPCLeaseNotFound)},
		"the server timed out":        {[]outcome{answered(rpctypes.ErrGRPCTimeout), success}, 1, is(rpctypes.ErrGRPCTimeout)},
		"learner, then voter":         {[]outcome{answered(rpctypes.ErrGRPCNotSupportedForLearner), success}, 2, isNil},
		"over the server's limit":     {[]outcome{answered(tooLarge(3)), success}, 1, is(&retry.NotSentError{Err: tooLarge(3)})},
		"over the client's limit":     {[]outcome{answered(tooLarge(4)), success}, 1, isUnknown(codes.ResourceExhausted)},
		"every endpoint is a learner": {[]outcome{answered(rpctypes.ErrGRPCNotSupportedForLearner)}, 3, is(rpctypes.ErrGRPCNotSupportedForLearner)},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			conn := &scriptedConn{script: tc.script}
			err := newTestCaller(conn, nil).Invoke(t.Context(), pb.KV_Put_FullMethodName, put, &pb.PutResponse{})
			assert.Equal(t, tc.calls, conn.calls)
			tc.check(t, err)
		})
	}
}

// gRPC ends a call with io.EOF that was refused twice, the second time before all of it was sent.
func TestEOFOfACallHasAStatus(t *testing.T) {
	a, c := newAttempt(t), newTestCaller(nil, nil)
	require.NoError(t, a.Picked(newHeldConn("m1:2379").endpoints[0]))
	err := c.lastUnary(a.ctx, pb.KV_Range_FullMethodName, nil, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return io.EOF })
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "m1:2379")
}

// The services for locks and elections say so with the code Unknown, also after their first steps.
func TestATokenOfTheBareConnectionIsRenewed(t *testing.T) {
	c, calls := newTestCaller(nil, nil), 0
	c.tokens.login, c.tokens.authenticate = func() Login { return alice }, (&authServer{}).authenticate
	require.NoError(t, c.tokens.ensure(t.Context()))
	first := tokenOf(t, c.tokens)
	invalid := status.Error(codes.Unknown, rpctypes.ErrInvalidAuthToken.Error())
	assert.Equal(t, invalid, c.lastUnary(t.Context(), "/v3lockpb.Lock/Lock", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		calls++
		return invalid
	}))
	assert.NotEqual(t, first, tokenOf(t, c.tokens))
	assert.Equal(t, 1, calls, "the key may have been put")
}

// tooLarge is gRPC's error for a message of a size. That of the put is 3.
func tooLarge(size int) error {
	return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. 2)", size)
}

func isNil(t *testing.T, err error) { t.Helper(); assert.NoError(t, err) }

func is(want error) func(*testing.T, error) {
	return func(t *testing.T, err error) { t.Helper(); assert.Equal(t, want, err) }
}

func isUnknown(code codes.Code) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var unknown *retry.UnknownOutcomeError
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, pb.KV_Put_FullMethodName, unknown.Method)
		assert.Equal(t, code, status.Code(err))
	}
}

func rangeOn(ctx context.Context, c *Caller) error {
	return c.Invoke(ctx, pb.KV_Range_FullMethodName, &pb.RangeRequest{}, &pb.RangeResponse{})
}

func TestReadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &scriptedConn{script: []outcome{broken, unsent, answered(rpctypes.ErrGRPCNoLeader), answered(rpctypes.ErrGRPCTimeout), success}}
		require.NoError(t, rangeOn(t.Context(), newTestCaller(conn, nil)))
		assert.Equal(t, 5, conn.calls)
	})
}

func TestReadWithoutDeadlineFailsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &scriptedConn{script: []outcome{answered(rpctypes.ErrGRPCNoLeader)}}
		start := time.Now()
		err := rangeOn(t.Context(), newTestCaller(conn, nil))
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, err)
		assert.LessOrEqual(t, time.Since(start), retryTimeout)
		assert.Greater(t, time.Since(start), retryTimeout/2)
	})
}

func TestCloseEndsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &scriptedConn{script: []outcome{answered(rpctypes.ErrGRPCNoLeader)}}
		c := newTestCaller(conn, nil)
		time.AfterFunc(700*time.Millisecond, func() { close(c.closed) })
		start := time.Now()
		assert.Equal(t, ErrClosed, rangeOn(t.Context(), c))
		assert.Equal(t, 700*time.Millisecond, time.Since(start))
	})
}

func TestMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := retry.DefaultConfig()
		config.Override(func(p *retry.Policy) { p.MaxAttempts = 4 })
		conn := &scriptedConn{script: []outcome{broken}}
		err := rangeOn(t.Context(), newTestCaller(conn, config))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, 4, conn.calls)
	})
}

func TestAmbiguousAttemptIsReported(t *testing.T) {
	revoke := func(t *testing.T, script ...outcome) (ambiguous bool, err error) {
		var reported atomic.Bool
		err = newTestCaller(&scriptedConn{script: script}, nil).Invoke(t.Context(), pb.Lease_LeaseRevoke_FullMethodName,
			&pb.LeaseRevokeRequest{ID: 1}, &pb.LeaseRevokeResponse{}, ReportAmbiguous(&reported))
		return reported.Load(), err
	}
	synctest.Test(t, func(t *testing.T) {
		ambiguous, err := revoke(t, broken, answered(rpctypes.ErrGRPCLeaseNotFound))
		assert.Equal(t, rpctypes.ErrGRPCLeaseNotFound, err)
		assert.True(t, ambiguous)

		ambiguous, err = revoke(t, unsent, answered(rpctypes.ErrGRPCLeaseNotFound))
		assert.Equal(t, rpctypes.ErrGRPCLeaseNotFound, err)
		assert.False(t, ambiguous)
	})
}

// In sustained overload the budget bounds the attempts of all calls together, whatever their
// deadlines.
func TestRetryBudgetBoundsOverload(t *testing.T) {
	for _, timeout := range []time.Duration{250 * time.Millisecond, 2 * time.Second, time.Minute} {
		grpctest.Bubble(t, timeout.String(), func(t *testing.T) {
			conn := &scriptedConn{script: []outcome{answered(rpctypes.ErrGRPCRequestTooManyRequests)}}
			c := newTestCaller(conn, nil)
			const calls = 200
			for range calls {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				require.Error(t, c.Invoke(ctx, pb.KV_Put_FullMethodName, &pb.PutRequest{}, &pb.PutResponse{}))
				cancel()
			}
			assert.LessOrEqual(t, conn.calls, calls*12/10)
		})
	}
}

// A connection lost under a call is no overload: the first failover costs no token.
func TestFailoverIsFreeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &scriptedConn{}
		c := newTestCaller(conn, nil)
		for range 100 {
			conn.script, conn.calls = []outcome{broken, success}, 0
			require.NoError(t, rangeOn(t.Context(), c))
		}
	})
}

// An interceptor may stop waiting for its call before gRPC does: an attempt that was evaluated as
// never sent must not be sent afterwards.
func TestNoPickAfterTheEnd(t *testing.T) {
	p := newFakeClientConn(t, "a")
	a := newAttempt(t)
	a.NotPicked() // it was queued
	require.False(t, a.evidence("").Sent)
	_, err := p.pickFor(a)
	assert.Equal(t, codes.Canceled, status.Code(err))
	assert.False(t, a.evidence("").Sent)
}

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
