package concurrency_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

func requireLeader(t *testing.T, e *Election, value string) {
	t.Helper()
	resp, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	require.Equal(t, value, string(resp.Kvs[0].Value))
}

func TestElection(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.Empty(t, e.Key())
		require.Nil(t, e.Header())
		_, err := e.Leader(t.Context())
		require.Equal(t, ErrElectionNoLeader, err)
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
		require.NoError(t, e.Resign(t.Context()))

		f.settle(t)
		before := f.Count("*")
		require.NoError(t, e.Campaign(t.Context(), "ann"))
		require.Equal(t, before+1, f.Count("*"), "an election without candidates takes one request")
		require.Equal(t, keyOf(s, "office"), e.Key())
		require.Equal(t, f.Get(e.Key()).CreateRevision, e.Rev())
		require.Equal(t, e.Rev(), e.Header().Revision)
		requireLeader(t, e, "ann")

		require.NoError(t, e.Proclaim(t.Context(), "ann at noon"))
		require.Equal(t, f.Revision(), e.Header().Revision)
		requireLeader(t, e, "ann at noon")
		require.Equal(t, int64(s.Lease()), f.Get(e.Key()).Lease)

		require.NoError(t, e.Resign(t.Context()))
		require.Equal(t, f.Revision(), e.Header().Revision)
		require.Empty(t, e.Key())
		require.Empty(t, f.keys(t, "office"))
		require.NoError(t, e.Resign(t.Context()))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
	})
}

func TestCampaignsAreWonInTheOrderOfArrival(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		first := NewElection(f.session(t), "office")
		require.NoError(t, first.Campaign(t.Context(), "first"))
		second, third := NewElection(f.session(t), "office"), NewElection(f.session(t), "office")
		secondWon := goes(func() error { return second.Campaign(t.Context(), "second") })
		thirdWon := goes(func() error { return third.Campaign(t.Context(), "third") })
		requireWaiting(t, secondWon)
		requireLeader(t, third, "first")
		require.NoError(t, first.Resign(t.Context()))
		require.NoError(t, requireNow(t, secondWon))
		requireLeader(t, third, "second")
		requireWaiting(t, thirdWon)
		require.NoError(t, second.Resign(t.Context()))
		require.NoError(t, requireNow(t, thirdWon))
	})
}

// A candidate whose key or session is lost does not become leader when the leader resigns.
func TestCampaignEndsWhenItIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, f fake, s *Session){
		"its lease expires": func(t *testing.T, f fake, s *Session) {
			require.NoError(t, f.ExpireLease(int64(s.Lease())))
		},
		"its key is deleted": func(t *testing.T, f fake, s *Session) {
			_, err := f.client.Delete(t.Context(), keyOf(s, "office"))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				leader := NewElection(f.session(t), "office")
				require.NoError(t, leader.Campaign(t.Context(), "leader"))
				s := f.session(t)
				e := NewElection(s, "office")
				waiting := goes(func() error { return e.Campaign(t.Context(), "other") })
				lose(t, f, s)
				require.Equal(t, ErrSessionExpired, requireNow(t, waiting))
				require.Empty(t, e.Key())
				require.NoError(t, leader.Resign(t.Context()))
				require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
				_, err := e.Leader(t.Context())
				require.Equal(t, ErrElectionNoLeader, err)
			})
		})
	}
}

func TestCampaignThatGivesUpWithdraws(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		leader := NewElection(f.session(t), "office")
		require.NoError(t, leader.Campaign(t.Context(), "leader"))
		e := NewElection(f.session(t), "office")
		require.Equal(t, context.DeadlineExceeded, e.Campaign(within(t, time.Second), "other"))
		require.Equal(t, []string{leader.Key()}, f.keys(t, "office"))
		require.Empty(t, e.Key())
	})
}

func TestCampaignWhoseAnswerIsLateLeavesNoKey(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		f.Once("Txn", holdAnswer)
		require.Equal(t, context.DeadlineExceeded, e.Campaign(within(t, time.Second), "x"))
		require.Empty(t, f.keys(t, "office"))
	})
}

func TestCampaignWhoseAnswerIsLost(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		f.Once("Txn", func(call *fakeetcd.Call) {
			_, err := call.Execute()
			assert.NoError(t, err)
			call.BreakConn()
		})
		require.NoError(t, e.Campaign(t.Context(), "x"))
		requireLeader(t, e, "x")
		require.Equal(t, 1, f.PutCount(e.Key()))
	})
}

// The session already leads, perhaps through the process before a restart.
func TestCampaignReplacesTheValue(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		rev := e.Rev()
		require.NoError(t, e.Campaign(t.Context(), "one"))
		require.Equal(t, 1, f.PutCount(e.Key()), "the value is unchanged")

		restarted := NewElection(f.session(t, WithLease(s.Lease())), "office")
		require.NoError(t, restarted.Campaign(t.Context(), "two"))
		requireLeader(t, e, "two")
		require.Equal(t, rev, restarted.Rev())
		require.Equal(t, f.Revision(), restarted.Header().Revision)
	})
}

// A Campaign that cannot write its value withdraws the candidate with the old one.
func TestCampaignThatCannotReplaceTheValueWithdraws(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		refused := f.Nth("Txn", 2, func(call *fakeetcd.Call) { call.Answer(nil, rpctypes.ErrGRPCPermissionDenied) })
		require.Equal(t, rpctypes.ErrPermissionDenied, e.Campaign(t.Context(), "two"))
		require.Equal(t, 1, refused.Ran())
		require.Empty(t, f.keys(t, "office"))
		require.Empty(t, e.Key())
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
	})
}

// The candidate is deleted between being found and being updated.
func TestCampaignWhoseCandidateGoes(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		key := e.Key()
		f.Nth("Txn", 2, func(*fakeetcd.Call) {
			_, err := f.client.Delete(t.Context(), key)
			assert.NoError(t, err)
		})
		require.Equal(t, ErrElectionNotLeader, e.Campaign(t.Context(), "two"))
		require.Empty(t, e.Key())
		require.NoError(t, e.Campaign(t.Context(), "two"))
	})
}

// A campaign with unknown outcome does not change the leader.
func TestCampaignThatIsNotAnsweredChangesNothing(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, e.Campaign(within(t, time.Second), "two"))
		require.NoError(t, e.Proclaim(t.Context(), "three"))
		requireLeader(t, e, "three")
	})
}

func TestProclaimOfALeaderThatWasReplaced(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		require.NoError(t, f.ExpireLease(int64(s.Lease())))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "two"))
		require.Empty(t, e.Key())
		require.Empty(t, f.keys(t, "office"))
		before := f.Count("Txn")
		require.NoError(t, e.Resign(t.Context()))
		require.Equal(t, before, f.Count("Txn"))
	})
}

func TestResignMayBeRepeated(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		e := NewElection(f.session(t), "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, e.Resign(ended))
		requireLeader(t, e, "one")
		require.NoError(t, e.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))
	})
}

func TestResumeElection(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		resumed := ResumeElection(s, "office", e.Key(), e.Rev())
		require.Equal(t, e.Key(), resumed.Key())
		require.Equal(t, e.Rev(), resumed.Rev())
		require.NoError(t, resumed.Proclaim(t.Context(), "two"))
		requireLeader(t, resumed, "two")
		require.NoError(t, resumed.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "three"))

		require.NoError(t, e.Campaign(t.Context(), "three"))
		resumed = ResumeElection(s, "office/", e.Key(), e.Rev())
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, resumed.Campaign(within(t, time.Second), "x"))
		requireLeader(t, e, "three")
		require.NoError(t, resumed.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))

		gone := ResumeElection(s, "office", "office/of another time", 2)
		require.Equal(t, ErrElectionNotLeader, gone.Proclaim(t.Context(), "x"))
		require.NoError(t, gone.Resign(t.Context()))

		require.NoError(t, gone.Campaign(t.Context(), "four"))
		require.Equal(t, "office"+keyOf(s, "")[1:], gone.Key(), "it takes the prefix as it is")
		synctest.Wait()
	})
}
