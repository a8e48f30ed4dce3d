package consumer_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
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
