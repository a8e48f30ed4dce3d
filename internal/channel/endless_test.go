package channel

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/retry"
)

func TestEndlessWorkOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := rangeTries(retry.Policy{MaxAttempts: 2}).Endless()
		start, attempts := time.Now(), 0
		for ; time.Since(start) < time.Hour; attempts++ {
			require.NoError(t, tries.Next(t.Context(), errGone))
		}
		most := int(time.Hour / (tries.config.PolicyFor(tries.method).MaxBackoff / 2))
		assert.Less(t, attempts, most, "an hour of outage is no storm")
		assert.Greater(t, attempts, most/4, "the pauses stay short")
	})
}

func TestEndlessWorkEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		tries := rangeTries(retry.Policy{}).Endless()
		start := time.Now()
		var err error
		for err == nil {
			err = tries.Next(ctx, errGone)
		}
		assert.Equal(t, errGone, err)
		assert.Greater(t, time.Since(start), time.Hour-2*time.Second)
	})
}

func TestEndlessWorkByClass(t *testing.T) {
	tests := []struct {
		name  string
		cause error
		again int // how often the stream is opened again, -1 for ever

		requireLeader bool
	}{
		{"broken", errGone, -1, false},
		{"ended by the server", io.EOF, -1, false},
		{"reset", status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"), -1, false},
		{"canceled by the server", status.Error(codes.Canceled, "context canceled"), -1, false},
		{"a proxy without a backend", status.Error(codes.Unknown, "unexpected HTTP status code"), -1, false},
		{"too many requests", rpctypes.ErrGRPCRequestTooManyRequests, -1, false},
		{"no leader", rpctypes.ErrGRPCNoLeader, -1, false},
		{"no leader, which the caller wants to hear", rpctypes.ErrGRPCNoLeader, 2, true},
		{"learners", rpctypes.ErrGRPCNotSupportedForLearner, 2, false},
		{"permission denied", rpctypes.ErrGRPCPermissionDenied, 0, false},
		{"unimplemented", status.Error(codes.Unimplemented, "unknown service"), 0, false},
		{"a message over the limit", status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), 0, false},
		{"a token that cannot be renewed", rpctypes.ErrGRPCInvalidAuthToken, 0, false},
		{"closed", ErrClosed, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := rangeTries(retry.Policy{MaxAttempts: 2}).Endless() // of three endpoints
				ctx := t.Context()
				if tt.requireLeader {
					ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
				}
				again := 0
				for again < 100 && tries.Next(ctx, tt.cause) == nil {
					again++
				}
				if tt.again < 0 {
					require.Equal(t, 100, again)
					return
				}
				require.Equal(t, tt.again, again)
				require.Equal(t, tt.cause, tries.Next(ctx, tt.cause))
			})
		})
	}
}

func TestEndlessWorkOutlivesAnOutageOfAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &authServer{err: errGone}
		tries := rangeTries(retry.Policy{})
		tries.tokens = newTestTokens(srv, alice)
		assert.Equal(t, errGone, tries.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))

		tries = tries.Endless()
		require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))
		srv.err = nil
		require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))
		assert.Equal(t, "token-3", tokenOf(t, tries.tokens))

		srv.err = rpctypes.ErrGRPCAuthFailed
		tries.tokens.drop(tries.tokens.current.Load())
		assert.Equal(t, srv.err, tries.Next(t.Context(), rpctypes.ErrGRPCInvalidAuthToken))
	})
}

// scriptedTries are those of endless work whose streams go where on says.
func scriptedTries() (tries *Tries, on func(*connection)) {
	tries = rangeTries(retry.Policy{}).Endless()
	return tries, func(conn *connection) {
		tries.opened = &attempt{Context: context.Background()}
		tries.opened.picked.Store(conn)
	}
}

func TestLeaderless(t *testing.T) {
	noLeader, learner := rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNotSupportedForLearner
	type step struct {
		on         int // connection, counted from 0
		cause      error
		leaderless bool
	}
	tests := []struct {
		name  string
		lost  []int // connections that cannot be established
		steps []step
	}{
		{"every member says it", nil, []step{{0, noLeader, false}, {1, noLeader, false}, {2, noLeader, true}}},
		{"one member says it again and again", nil, []step{{0, noLeader, false}, {0, noLeader, false}, {0, noLeader, false}}},
		{"others are only broken", nil, []step{{0, noLeader, false}, {1, errGone, false}, {2, errGone, false}}},
		{"a learner has no say", nil, []step{{0, noLeader, false}, {1, learner, false}, {2, noLeader, true}}},
		{"members that cannot be reached have no say", []int{1, 2}, []step{{0, noLeader, true}}},
		{"one that can be reached has", []int{1}, []step{{0, noLeader, false}, {2, noLeader, true}}},
		{"and it stays so", []int{1, 2}, []step{{0, noLeader, true}, {0, errGone, true}, {0, noLeader, true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peers := newConnections()
				conns := []*connection{peers.fake("0"), peers.fake("1"), peers.fake("2")}
				for _, i := range tt.lost {
					conns[i].note(connectivity.TransientFailure)
				}
				tries, on := scriptedTries()
				for i, s := range tt.steps {
					on(conns[s.on])
					require.NoError(t, tries.Next(t.Context(), s.cause))
					require.Equal(t, s.leaderless, tries.Leaderless(), "step %d", i)
				}
				tries.Progress()
				assert.False(t, tries.Leaderless())
			})
		})
	}
}

// A stream that can be opened in another way does not wait for an election,
// however long it had been failing.
func TestNoPauseBeforeAStreamWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, on := scriptedTries()
		on(newConnections().fake("only"))
		for range 100 { // exhausts the budget
			require.NoError(t, tries.Next(t.Context(), errGone))
		}
		require.True(t, tries.budget.Throttled())
		start := time.Now()
		require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		require.True(t, tries.Leaderless())
		assert.LessOrEqual(t, time.Since(start), tries.config.PolicyFor(tries.method).InitialBackoff)

		start = time.Now()
		require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
		assert.Greater(t, time.Since(start), 100*time.Millisecond, "that way was refused as well")
	})
}

// A caller who requires a leader is not kept waiting by members that cannot be
// reached, but by members that may yet answer.
func TestRequiredLeaderIsMissedByAllReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
		peers := newConnections()
		a, b := peers.fake("a"), peers.fake("b")
		tries, on := scriptedTries()
		on(a)
		require.NoError(t, tries.Next(ctx, rpctypes.ErrGRPCNoLeader))
		b.note(connectivity.TransientFailure)
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, tries.Next(ctx, rpctypes.ErrGRPCNoLeader))
	})
}

// Voters that are down may come back, and then the learner's refusal is not
// the last word.
func TestALearnersRefusalWaitsForVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := newConnections()
		learner, voter := peers.fake("learner"), peers.fake("voter")
		voter.note(connectivity.TransientFailure)
		tries, on := scriptedTries()
		on(learner)
		for range 20 {
			require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner))
		}
		voter.Shutdown()
		assert.Equal(t, rpctypes.ErrGRPCNotSupportedForLearner, tries.Next(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner))
	})
}

func TestDefaultTriesOfEndlessWork(t *testing.T) {
	tries := DefaultTries("/etcdserverpb.Watch/Watch").Endless()
	assert.Nil(t, tries.Removed())
	require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
	assert.True(t, tries.Leaderless())
}

func TestConnectionsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := newConnections()
		tries, on := scriptedTries()
		for range 10 {
			conn := peers.fake("")
			on(conn)
			require.NoError(t, tries.Next(t.Context(), errGone))
			conn.Shutdown()
		}
		assert.Len(t, tries.failed, 1)
	})
}
