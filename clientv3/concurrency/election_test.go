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

		ended := clienttest.Ended(t)
		require.Equal(t, context.Canceled, e.Resign(ended))
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
		resp := clienttest.Must(f.client.Txn(t.Context()).If(before).Commit())
		require.False(t, resp.Succeeded, "a later key of the same name is another one")
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
		require.NoError(t, resumed.Proclaim(t.Context(), "two"))
		requireLeader(t, resumed, "two")
		require.NoError(t, resumed.Resign(t.Context()))
		require.Empty(t, f.keys(t, "office"))
		require.Equal(t, ErrElectionNotLeader, e.Proclaim(t.Context(), "three"))

		require.NoError(t, e.Campaign(t.Context(), "three"))
		resumed = ResumeElection(s, "office/", e.Key(), e.Rev())
		f.Once("Txn", func(call *fakeetcd.Call) { neverAnswer(call) })
		require.Equal(t, context.DeadlineExceeded, resumed.Campaign(grpctest.Within(t, time.Second), "x"))
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

func TestSemaphoreHasNPlaces(t *testing.T) {
	withFake(t, 3, func(t *testing.T, f fake) {
		const places, sessions = 3, 8
		var all []*Semaphore
		var results []<-chan error
		for range sessions {
			m := NewSemaphore(f.session(t), "pool", places)
			require.False(t, owns(t, f.client, m))
			all = append(all, m)
			results = append(results, clienttest.Go(func() error { return m.Acquire(t.Context(), "who") }))
		}
		for i, m := range all {
			for j := i; j < min(i+places, sessions); j++ {
				if i == 0 || j == i+places-1 { // the one that waited
					require.NoError(t, requireNow(t, results[j]))
				}
				require.True(t, owns(t, f.client, all[j]))
			}
			for j := i + places; j < sessions; j++ {
				requireWaiting(t, results[j])
			}
			require.Equal(t, "who", string(f.Get(m.Key()).Value))
			require.Equal(t, f.Get(m.Key()).CreateRevision, m.Rev())
			require.NoError(t, m.Release(t.Context()))
			require.False(t, owns(t, f.client, m))
			require.NoError(t, m.Release(t.Context()), "it does nothing")
		}
		require.Empty(t, f.keys(t, "pool"))
	})
}

// The holders are not the last keys ahead of a waiter, and any of them may leave.
func TestSemaphoreWhenAnyHolderLeaves(t *testing.T) {
	for name, leaves := range map[string]int{"first": 0, "last": 1} {
		t.Run(name, func(t *testing.T) {
			withFake(t, 1, func(t *testing.T, f fake) {
				var held []*Semaphore
				for range 2 {
					m := NewSemaphore(f.session(t), "pool", 2)
					require.NoError(t, m.Acquire(t.Context(), ""))
					held = append(held, m)
				}
				waits := func() (*Semaphore, <-chan error) {
					m := NewSemaphore(f.session(t), "pool", 2)
					return m, clienttest.Go(func() error { return m.Acquire(t.Context(), "") })
				}
				_, third := waits()
				_, fourth := waits()
				reads := f.Count("Txn")
				require.NoError(t, held[leaves].Release(t.Context()))
				require.NoError(t, requireNow(t, third))
				requireWaiting(t, fourth)
				require.Equal(t, reads+2, f.Count("Txn"), "the release, and a read of one waiter")
				require.NoError(t, held[1-leaves].Release(t.Context()))
				require.NoError(t, requireNow(t, fourth))
			})
		})
	}
}

func TestSemaphoreOfOneIsALock(t *testing.T) {
	for _, places := range []int{-1, 0, 1} {
		withFake(t, 1, func(t *testing.T, f fake) {
			m := lock(t, f.session(t), "pool")
			s := NewSemaphore(f.session(t), "pool", places)
			result := clienttest.Go(func() error { return s.Acquire(t.Context(), "") })
			requireWaiting(t, result)
			require.NoError(t, m.Unlock(t.Context()))
			require.NoError(t, requireNow(t, result))
		})
	}
}
