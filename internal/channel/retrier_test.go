package channel

import (
	"context"
	"errors"
	"io"
	"net"
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
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/retry"
)

var errGone = status.Error(codes.Unavailable, "connection reset by peer")

func rangeRetrier(policy retry.Policy) *Retrier {
	r := newTestCaller(nil, nil).Retrier(pb.KV_RangeStream_FullMethodName)
	r.policy = policy
	return r
}

func TestRetrierIsBoundedByTheDeadline(t *testing.T) {
	for _, endless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			retrier := rangeRetrier(retry.Policy{})
			if endless {
				retrier.Endless()
			}
			ctx := grpctest.Within(t, time.Hour)
			start := time.Now()
			var err error
			for err == nil {
				err = retrier.Next(ctx, errGone)
			}
			require.Equal(t, errGone, err, "the cause, not the deadline")
			require.Greater(t, time.Since(start), time.Hour-12*throttledBackoff)
		})
	}
}

func TestRetrierStartsAnewAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := rangeRetrier(retry.Policy{MaxAttempts: 3})
		for range 10 {
			require.NoError(t, a.Next(t.Context(), errGone))
			require.NoError(t, a.Next(t.Context(), errGone))
			for range 10 { // adds a retry to the budget
				a.Progress()
			}
		}
		require.NoError(t, a.Next(t.Context(), errGone))
		require.NoError(t, a.Next(t.Context(), errGone))
		require.Equal(t, errGone, a.Next(t.Context(), errGone), "three attempts in a row")
	})
}

func TestRetrierByClass(t *testing.T) {
	const (
		endless = 1 << iota
		requireLeader
		password
		source
		own
	)
	changed := rpctypes.ErrGRPCAuthOldRevision
	learner := rpctypes.ErrGRPCNotSupportedForLearner
	tests := []struct {
		name  string
		cause error
		width int
		again int // how often the stream is reopened, -1 for as long as time allows
		flags int
	}{
		{"broken", errGone, 1, -1, 0},
		{"no leader", rpctypes.ErrGRPCNoLeader, 1, -1, 0},
		{"no leader, which the caller requires", rpctypes.ErrGRPCNoLeader, 3, 2, requireLeader},
		{"too many requests", rpctypes.ErrGRPCRequestTooManyRequests, 1, -1, 0},
		{"canceled by the server", status.Error(codes.Canceled, "canceled"), 1, -1, 0},
		{"stale token", rpctypes.ErrGRPCInvalidAuthToken, 3, maxTokenRefreshes, password},
		{"a token of the program, which may have another", rpctypes.ErrGRPCInvalidAuthToken, 3, maxTokenRefreshes, 0},
		{"a token that cannot be renewed", rpctypes.ErrGRPCInvalidAuthToken, 3, 0, own},
		{"users change", changed, 3, -1, password},
		{"users change: a certificate", changed, 3, -1, 0},
		{"users change: a source, which may return what it has", changed, 3, 1 + maxTokenRefreshes, source},
		{"users change: a token that cannot be renewed", changed, 3, 0, own},
		{"refused by the only member", learner, 1, 0, 0},
		{"refused by members", learner, 3, 2, 0},
		{"refused by connections that are full", status.Error(codes.Unavailable, "the connection is draining"), 1, -1, 0},
		{"code that is not retryable", status.Error(codes.Internal, "boom"), 3, 0, 0},
		{"definite", rpctypes.ErrGRPCPermissionDenied, 3, 0, 0},
		{"closed", status.Error(codes.Canceled, "grpc: the client connection is closing"), 3, 0, 0},

		{"endless: broken", errGone, 3, -1, endless},
		{"endless: ended by the server", io.EOF, 3, -1, endless},
		{"endless: reset", status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"), 3, -1, endless},
		{"endless: a corrupt message", status.Error(codes.Internal, "grpc: failed to unmarshal the received message: proto: cannot parse"), 3, -1, endless},
		{"endless: canceled by the server", status.Error(codes.Canceled, "context canceled"), 3, -1, endless},
		{"endless: a proxy without a backend", status.Error(codes.Unknown, "unexpected HTTP status code"), 3, -1, endless},
		{"endless: too many requests", rpctypes.ErrGRPCRequestTooManyRequests, 3, -1, endless},
		{"endless: no leader", rpctypes.ErrGRPCNoLeader, 3, -1, endless},
		{"endless: no leader, which the caller requires", rpctypes.ErrGRPCNoLeader, 3, 2, endless | requireLeader},
		{"endless: learners", learner, 3, 2, endless},
		{"endless: permission denied", rpctypes.ErrGRPCPermissionDenied, 3, 0, endless},
		{"endless: unimplemented", status.Error(codes.Unimplemented, "unknown service"), 3, 0, endless},
		{"endless: a message over the limit", status.Error(codes.ResourceExhausted, "grpc: received message after decompression larger than max 4"), 3, 0, endless},
		{"endless: a token that cannot be renewed", rpctypes.ErrGRPCInvalidAuthToken, 3, 0, endless},
		{"endless: closed", ErrClosed, 3, 0, endless},
	}
	for _, tt := range tests {
		grpctest.Bubble(t, tt.name, func(t *testing.T) {
			a, most, ctx := rangeRetrier(retry.Policy{}), 6, t.Context()
			if tt.flags&endless != 0 {
				a, most = rangeRetrier(retry.Policy{MaxAttempts: 2}).Endless(), 100
			}
			a.c.width = func() int { return tt.width }
			switch srv := new(authServer); {
			case tt.flags&password != 0:
				a.c.tokens = newTestTokens(srv, alice)
			case tt.flags&source != 0:
				a.c.tokens = newSourceTokens(srv.token)
			case tt.flags&own != 0:
				a.c.tokens = newTestTokens(srv, Login{Token: "own"})
				a.opened = carrying(t, newToken("own", Login{}))
			}
			if tt.flags&requireLeader != 0 {
				ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
			}
			again := 0
			for again < most && a.Next(ctx, tt.cause) == nil {
				again++
			}
			if tt.again < 0 {
				require.Equal(t, most, again)
				return
			}
			require.Equal(t, tt.again, again)
			require.Equal(t, tt.cause, a.Next(ctx, tt.cause))
		})
	}
}

func TestRetrierEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := rangeRetrier(retry.Policy{InitialBackoff: 10 * time.Second, MaxBackoff: 10 * time.Second, Jitter: 0.01})
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		require.Equal(t, codes.Canceled, status.Code(a.Next(ctx, errGone)))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, errGone, a.Next(ctx, errGone), "no pause for an ended context")
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestEndlessWorkSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier := rangeRetrier(retry.Policy{MaxAttempts: 2}).Endless()
		start, attempts := time.Now(), 0
		for ; time.Since(start) < time.Hour; attempts++ {
			require.NoError(t, retrier.Next(t.Context(), errGone))
		}
		assert.Less(t, attempts, 1000, "few attempts in an hour of outage")
		assert.Greater(t, attempts, 280, "an attempt every twelve seconds on average")
		own := errors.New("of an interceptor of the program, with no status")
		require.Equal(t, own, retrier.Next(t.Context(), own))
		require.NoError(t, retrier.Next(t.Context(), io.EOF))
	})
}

// Streams that cannot be opened although an endpoint is connected, as where connections of their own fail, are tried at the
// usual pace.
func TestOnlyAnOutageSlowsEndlessWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier, attempts := rangeRetrier(retry.Policy{}).Endless(), 0
		retrier.c.monitor.SetEndpoints(newFakeClientConn(t, "only").of("only"))
		retrier.opened = newAttempt(t)
		retrier.opened.NotPicked()
		for start := time.Now(); time.Since(start) < time.Minute; attempts++ {
			require.NoError(t, retrier.Next(t.Context(), errGone))
		}
		assert.GreaterOrEqual(t, attempts, 60)
	})
}

// While nothing is connected, streams are tried every 1 to 4 s. They take nothing from the budget.
func TestStreamsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errGone })
		c := newTestChannel(t, Config{Endpoints: []string{"a", "b"}, DialOptions: []grpc.DialOption{refuse}})
		retrier, attempts := watchRetrier(c), 0
		for start := time.Now(); time.Since(start) < time.Minute; attempts++ {
			_, err := pb.NewWatchClient(retrier).Watch(t.Context())
			require.NoError(t, retrier.Next(t.Context(), err))
		}
		assert.InDelta(t, 30, attempts, 15, "one to four seconds, and the first few at once")
		left, limit := retrier.c.budget.Left()
		assert.InDelta(t, limit, left, 0)
	})
}

func TestEndlessWorkSurvivesAnOutageOfAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &authServer{err: errGone}
		retrier := rangeRetrier(retry.Policy{})
		retrier.c.tokens = newTestTokens(srv, alice)
		assert.Equal(t, errGone, retrier.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))

		retrier = retrier.Endless()
		require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))
		srv.err = nil
		require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))
		assert.Equal(t, "token-3", tokenOf(t, retrier.c.tokens))

		srv.err = rpctypes.ErrGRPCAuthFailed
		retrier.c.tokens.current.Store(nil)
		assert.Equal(t, srv.err, retrier.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))
	})
}

// scriptedRetrier returns a Retrier of endless work, and a function that sets the endpoint of its latest stream.
func scriptedRetrier() (retrier *Retrier, on func(*balancer.Endpoint)) {
	retrier = rangeRetrier(retry.Policy{}).Endless()
	return retrier, func(ep *balancer.Endpoint) {
		retrier.opened = new(attempt)
		_ = retrier.opened.Picked(ep)
	}
}

func TestLeaderless(t *testing.T) {
	noLeader, learner := rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNotSupportedForLearner
	type step struct {
		on         string // endpoint
		cause      error
		leaderless bool
	}
	tests := []struct {
		name  string
		lost  []string // endpoints that cannot be connected to
		steps []step
	}{
		{"every member", nil, []step{{"a", noLeader, false}, {"b", noLeader, false}, {"c", noLeader, true}}},
		{"one member repeatedly", nil, []step{{"a", noLeader, false}, {"a", noLeader, false}, {"a", noLeader, false}}},
		{"the others are broken", nil, []step{{"a", noLeader, false}, {"b", errGone, false}, {"c", errGone, false}}},
		{"a learner does not count", nil, []step{{"a", noLeader, false}, {"b", learner, false}, {"c", noLeader, true}}},
		{"unreachable members do not count", []string{"b", "c"}, []step{{"a", noLeader, true}}},
		{"a reachable member counts", []string{"b"}, []step{{"a", noLeader, false}, {"c", noLeader, true}}},
		{"it stays leaderless", []string{"b", "c"}, []step{{"a", noLeader, true}, {"a", errGone, true}, {"a", noLeader, true}}},
	}
	for _, tt := range tests {
		grpctest.Bubble(t, tt.name, func(t *testing.T) {
			p := newFakeClientConn(t, "a", "b", "c")
			for _, address := range tt.lost {
				p.setState(address, connectivity.TransientFailure)
			}
			retrier, on := scriptedRetrier()
			for i, s := range tt.steps {
				on(p.endpoints[s.on])
				require.NoError(t, retrier.Next(t.Context(), s.cause))
				require.Equal(t, s.leaderless, retrier.Leaderless(), "step %d", i)
			}
			retrier.Progress()
			assert.False(t, retrier.Leaderless())
		})
	}
}

// A stream that can be opened without a leader does not wait for an election, however long it has
// failed.
func TestNoPauseBeforeAStreamWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retrier, on := scriptedRetrier()
		on(newFakeClientConn(t, "only").endpoints["only"])
		for range 100 { // exhausts the budget
			require.NoError(t, retrier.Next(t.Context(), errGone))
		}
		require.False(t, retrier.c.budget.Take())
		start := time.Now()
		require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		require.True(t, retrier.Leaderless())
		assert.LessOrEqual(t, time.Since(start), retrier.c.config.PolicyFor(retrier.method).InitialBackoff)

		start = time.Now()
		require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		assert.Greater(t, time.Since(start), 100*time.Millisecond, "the stream without a leader is refused too")
	})
}

// A caller that requires a leader does not wait for unreachable members, but for members that may
// still answer.
func TestNoLeaderFromAllReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
		p := newFakeClientConn(t, "a", "b")
		retrier, on := scriptedRetrier()
		on(p.endpoints["a"])
		require.NoError(t, retrier.Next(ctx, rpctypes.ErrGRPCNoLeader))
		p.setState("b", connectivity.TransientFailure)
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, retrier.Next(ctx, rpctypes.ErrGRPCNoLeader))
	})
}

// Unreachable voters may come back, so the learner's refusal is not final.
func TestALearnersRefusalWaitsForVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeClientConn(t, "learner", "voter")
		p.setState("voter", connectivity.TransientFailure)
		retrier, on := scriptedRetrier()
		on(p.endpoints["learner"])
		for range 20 {
			require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner))
		}
		p.set("learner")
		assert.Equal(t, rpctypes.ErrGRPCNotSupportedForLearner, retrier.Next(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner))
	})
}

func TestDefaultRetrierOfEndlessWork(t *testing.T) {
	retrier := DefaultRetrier("/etcdserverpb.Watch/Watch").Endless()
	assert.Nil(t, retrier.Removed())
	require.NoError(t, retrier.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
	assert.True(t, retrier.Leaderless())
}

// The refusal of a removed endpoint does not count for its replacement.
func TestRefusalsOfRemovedEndpointsDoNotCount(t *testing.T) {
	p := newFakeClientConn(t, "a", "b", "c")
	a, b, c := p.endpoints["a"], p.endpoints["b"], p.endpoints["c"]
	var r refusals
	r.add(a)
	p.set("b", "c")
	r.add(b)
	r.add(b)
	assert.False(t, r.byAll(b, 2))
	r.add(c)
	assert.True(t, r.byAll(c, 2))
	assert.Equal(t, []*balancer.Endpoint{b, c}, r.endpoints)

	p.set()
	assert.False(t, r.byAll(c, 2), "other endpoints may follow")
}

func TestRemovedEndpointsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeClientConn(t, "a", "b", "c")
		retrier, on := scriptedRetrier()
		for _, address := range []string{"a", "b", "c"} {
			on(p.endpoints[address])
			require.NoError(t, retrier.Next(t.Context(), errGone))
			p.set("c")
		}
		assert.Equal(t, p.of("c"), retrier.failed)
	})
}
