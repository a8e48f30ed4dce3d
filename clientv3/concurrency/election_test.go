package concurrency_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	. "github.com/quorate/quorate/clientv3/concurrency"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/internal/grpctest"
)

func requireLeader(t *testing.T, e *Election, value string) {
	t.Helper()
	resp := clienttest.Must(e.Leader(t.Context()))
	require.Len(t, resp.Kvs, 1)
	require.Equal(t, value, string(resp.Kvs[0].Value))
}

func TestElection(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.Empty(t, e.Key())
		require.Nil(t, e.Header())
		require.False(t, owns(t, f.client, e))
		_, err := e.Leader(t.Context())
		require.Equal(t, ErrElectionNoLeader, err)
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))
		require.NoError(t, e.Resign(t.Context()))

		f.settle(t)
		requests := f.Count("*")
		require.NoError(t, e.Campaign(t.Context(), "ann"))
		require.Equal(t, requests+1, f.Count("*"), "an election without candidates takes one request")
		require.Equal(t, keyOf(s, "office"), e.Key())
		require.Equal(t, f.Get(e.Key()).CreateRevision, e.Rev())
		require.Equal(t, e.Rev(), e.Header().Revision)
		requireLeader(t, e, "ann")

		require.NoError(t, e.Proclaim(t.Context(), "ann at noon"))
		require.Equal(t, f.Revision(), e.Header().Revision)
		requireLeader(t, e, "ann at noon")
		require.Equal(t, int64(s.Lease()), f.Get(e.Key()).Lease)

		require.Equal(t, context.Canceled, e.Resign(clienttest.Ended(t)))
		require.True(t, owns(t, f.client, e))
		before := e.IsOwner()
		require.NoError(t, e.Resign(t.Context()), "it may be repeated")
		require.Equal(t, f.Revision(), e.Header().Revision)
		require.Empty(t, e.Key())
		require.False(t, owns(t, f.client, e))
		require.Empty(t, f.keys(t, "office"))
		require.NoError(t, e.Resign(t.Context()))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "x"))

		require.NoError(t, e.Campaign(t.Context(), "two"))
		require.True(t, owns(t, f.client, e))
		require.False(t, clienttest.Must(f.client.Txn(t.Context()).If(before).Commit()).Succeeded, "a later key of the same name is another one")
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

func TestResumeElection(t *testing.T) {
	withFake(t, 1, func(t *testing.T, f fake) {
		s := f.session(t)
		e := NewElection(s, "office")
		require.NoError(t, e.Campaign(t.Context(), "one"))
		resumed := ResumeElection(s, "office", e.Key(), e.Rev())
		require.Equal(t, e.Key(), resumed.Key())
		require.Equal(t, e.Rev(), resumed.Rev())
		require.True(t, owns(t, f.client, resumed))
		restarted := f.session(t, WithLease(s.Lease()))
		resumed = ResumeElection(restarted, "office/", e.Key(), e.Rev())
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, NewElection(restarted, "office").Campaign(grpctest.Within(t, time.Second), "x"))
		time.Sleep(2 * time.Second) // until that request arrives
		require.NoError(t, resumed.Proclaim(t.Context(), "two"))
		requireLeader(t, resumed, "two")
		require.NoError(t, resumed.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "three"))

		require.NoError(t, e.Campaign(t.Context(), "three"))
		resumed = ResumeElection(s, "office/", e.Key(), e.Rev())
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, resumed.Campaign(grpctest.Within(t, time.Second), "x"))
		time.Sleep(2 * time.Second) // until that request arrives
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
