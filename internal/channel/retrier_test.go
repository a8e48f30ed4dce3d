package channel

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/retry"
)

var errGone = status.Error(codes.Unavailable, "connection reset by peer")

func rangeRetrier(policy retry.Policy) *Retrier {
	t := DefaultRetrier(pb.KV_RangeStream_FullMethodName)
	t.c = newTestCaller(nil, nil) // with its own budget
	t.policy = policy
	return t
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
		{"a token that cannot be renewed", rpctypes.ErrGRPCInvalidAuthToken, 3, 0, 0},
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
		{"endless: canceled by the server", status.Error(codes.Canceled, "context canceled"), 3, -1, endless},
		{"endless: a proxy without a backend", status.Error(codes.Unknown, "unexpected HTTP status code"), 3, -1, endless},
		{"endless: too many requests", rpctypes.ErrGRPCRequestTooManyRequests, 3, -1, endless},
		{"endless: no leader", rpctypes.ErrGRPCNoLeader, 3, -1, endless},
		{"endless: no leader, which the caller requires", rpctypes.ErrGRPCNoLeader, 3, 2, endless | requireLeader},
		{"endless: learners", learner, 3, 2, endless},
		{"endless: permission denied", rpctypes.ErrGRPCPermissionDenied, 3, 0, endless},
		{"endless: unimplemented", status.Error(codes.Unimplemented, "unknown service"), 3, 0, endless},
		{"endless: a message over the limit", status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), 3, 0, endless},
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
