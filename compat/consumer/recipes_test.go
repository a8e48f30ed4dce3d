package consumer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
)

func TestMutexAndElection(t *testing.T) {
	_, client, ctx := start(t)
	first, second := session(t, client), session(t, client)
	mutex, rival := concurrency.NewMutex(first, "lock"), concurrency.NewMutex(second, "lock")
	require.NoError(t, mutex.Lock(ctx))
	requireSame(t, concurrency.ErrLocked, rival.TryLock(ctx))
	guarded, err := client.Txn(ctx).If(mutex.IsOwner()).Then(clientv3.OpPut("guarded", "v")).Commit()
	require.NoError(t, err)
	require.True(t, guarded.Succeeded)
	require.NoError(t, mutex.Unlock(ctx))
	requireSame(t, concurrency.ErrLockReleased, mutex.Unlock(ctx))

	election := concurrency.NewElection(first, "leader")
	_, err = election.Leader(ctx)
	requireSame(t, concurrency.ErrElectionNoLeader, err)
	require.NoError(t, election.Campaign(ctx, "me"))
	leader, err := election.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "me", string(leader.Kvs[0].Value))
	require.NoError(t, election.Resign(ctx))
}

func TestSoftwareTransaction(t *testing.T) {
	cluster, client, ctx := start(t)
	transfer := func(s concurrency.STM) error {
		s.Put("to", s.Get("from"))
		s.Del("from")
		return nil
	}
	_, err := cluster.Put("from", "all of it")
	require.NoError(t, err)
	_, err = concurrency.NewSTM(client, transfer, concurrency.WithIsolation(concurrency.Serializable),
		concurrency.WithAbortContext(ctx), concurrency.WithPrefetch("from", "to"))
	require.NoError(t, err)
	require.Nil(t, cluster.Get("from"))
	require.Equal(t, "all of it", string(cluster.Get("to").GetValue()))
}

func TestRecipes(t *testing.T) {
	cluster, client, ctx := start(t)
	barrier := recipe.NewBarrier(client, "barrier")
	require.NoError(t, barrier.Hold())
	requireSame(t, recipe.ErrKeyExists, barrier.Hold())
	require.NoError(t, barrier.Release())
	require.NoError(t, barrier.Wait())

	queue, urgent := recipe.NewQueue(client, "queue"), recipe.NewPriorityQueue(client, "urgent")
	require.NoError(t, queue.Enqueue("v"))
	got, err := queue.Dequeue()
	require.NoError(t, err)
	require.Equal(t, "v", got)
	require.NoError(t, urgent.Enqueue("later", 2))
	require.NoError(t, urgent.Enqueue("now", 1))
	got, err = urgent.Dequeue()
	require.NoError(t, err)
	require.Equal(t, "now", got)

	lock := recipe.NewRWMutex(session(t, client), "rw")
	require.NoError(t, lock.RLock())
	require.NoError(t, lock.RUnlock())
	rev, err := cluster.Put("awaited", "v")
	require.NoError(t, err)
	event, err := recipe.WaitEvents(client, "awaited", rev, []mvccpb.Event_EventType{mvccpb.PUT})
	require.NoError(t, err)
	require.Equal(t, "awaited", string(event.Kv.Key))
	require.NoError(t, context.Cause(ctx))
}
