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

	"github.com/quorate/quorate/balancer"
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
func scriptedTries() (tries *Tries, on func(*balancer.Endpoint)) {
	tries = rangeTries(retry.Policy{}).Endless()
	return tries, func(ep *balancer.Endpoint) {
		tries.opened = new(attempt)
		tries.opened.picked.Store(ep)
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
		{"every member says it", nil, []step{{"a", noLeader, false}, {"b", noLeader, false}, {"c", noLeader, true}}},
		{"one member says it again and again", nil, []step{{"a", noLeader, false}, {"a", noLeader, false}, {"a", noLeader, false}}},
		{"others are only broken", nil, []step{{"a", noLeader, false}, {"b", errGone, false}, {"c", errGone, false}}},
		{"a learner has no say", nil, []step{{"a", noLeader, false}, {"b", learner, false}, {"c", noLeader, true}}},
		{"members that cannot be reached have no say", []string{"b", "c"}, []step{{"a", noLeader, true}}},
		{"one that can be reached has", []string{"b"}, []step{{"a", noLeader, false}, {"c", noLeader, true}}},
		{"and it stays so", []string{"b", "c"}, []step{{"a", noLeader, true}, {"a", errGone, true}, {"a", noLeader, true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeers(t, "a", "b", "c")
				for _, address := range tt.lost {
					p.become(address, connectivity.TransientFailure)
				}
				tries, on := scriptedTries()
				for i, s := range tt.steps {
					on(p.endpoints[s.on])
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
		on(newPeers(t, "only").endpoints["only"])
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
		p := newPeers(t, "a", "b")
		tries, on := scriptedTries()
		on(p.endpoints["a"])
		require.NoError(t, tries.Next(ctx, rpctypes.ErrGRPCNoLeader))
		p.become("b", connectivity.TransientFailure)
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, tries.Next(ctx, rpctypes.ErrGRPCNoLeader))
	})
}

// Voters that are down may come back, and then the learner's refusal is not
// the last word.
func TestALearnersRefusalWaitsForVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, "learner", "voter")
		p.become("voter", connectivity.TransientFailure)
		tries, on := scriptedTries()
		on(p.endpoints["learner"])
		for range 20 {
			require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner))
		}
		p.set("learner")
		assert.Equal(t, rpctypes.ErrGRPCNotSupportedForLearner, tries.Next(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner))
	})
}

func TestDefaultTriesOfEndlessWork(t *testing.T) {
	tries := DefaultTries("/etcdserverpb.Watch/Watch").Endless()
	assert.Nil(t, tries.Removed())
	require.NoError(t, tries.Next(t.Context(), rpctypes.ErrGRPCNoLeader))
	assert.True(t, tries.Leaderless())
}

// An endpoint that refused and was removed does not stand for the one that took
// its place.
func TestRefusalsOfEndpointsThatAreGoneDoNotCount(t *testing.T) {
	p := newPeers(t, "a", "b", "c")
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
	assert.False(t, r.byAll(c, 2), "there may be others in a moment")
}

func TestEndpointsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t, "a", "b", "c")
		tries, on := scriptedTries()
		for _, address := range []string{"a", "b", "c"} {
			on(p.endpoints[address])
			require.NoError(t, tries.Next(t.Context(), errGone))
			p.set("c")
		}
		assert.Equal(t, p.of("c"), tries.failed)
	})
}
