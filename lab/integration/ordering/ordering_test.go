// Package ordering_test reads from a member that is cut off from the others, which no
// fake is: it has a store of its own, and answers from it.
package ordering_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/ordering"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/retry"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// patience is far above what the test takes; one that hangs is ended by it.
const patience = 2 * time.Minute

// TestPartition cuts a follower off, writes, and reads from all members.
func TestPartition(t *testing.T) {
	const keys = 100
	ctx := labtest.Within(t, patience)
	// A busy machine elects no other leader meanwhile.
	cluster := labtest.Start(t, lab.Config{Members: 3, Heartbeat: 200 * time.Millisecond, Election: 2 * time.Second})
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	behind := cluster.Members()[0]
	if behind == leader {
		behind = cluster.Members()[1]
	}
	c := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})

	write := func(kv clientv3.KV, value string) (rev int64) {
		for i := range keys {
			key := fmt.Sprintf("k%03d", i)
			put, err := kv.Put(ctx, key, value)
			for ctx.Err() == nil && retry.OutcomeOf(err) == retry.OutcomeUnknown { // a member that is short of CPU gives no sign of life
				put, err = kv.Put(ctx, key, value)
			}
			require.NoError(t, err)
			rev = put.Header.Revision
		}
		return rev
	}
	seen := write(c, "old")
	for _, m := range cluster.Members() { // it must have the old values
		require.Eventually(t, func() bool {
			status, err := m.Status(ctx)
			return err == nil && status.Header.Revision >= seen
		}, patience, 10*time.Millisecond)
	}
	cluster.Isolate(behind)
	kv := ordering.NewKV(c.KV, ordering.NewOrderViolationSwitchEndpointClosure(c))
	c.SetEndpoints(leader.Endpoint()) // the follower would keep a write until it times out
	seen = write(kv, "new")
	c.SetEndpoints(cluster.Endpoints()...)

	// Without the order, the member that is behind does answer.
	plain := labtest.Client(t, clientv3.Config{Endpoints: []string{behind.Endpoint()}})
	old, err := plain.Get(ctx, "k000", clientv3.WithSerializable())
	require.NoError(t, err)
	require.Equal(t, "old", string(old.Kvs[0].Value))
	require.Less(t, old.Header.Revision, seen)

	for range 50 {
		readsNew(ctx, t, kv, seen, keys)
	}
	require.ElementsMatch(t, cluster.Endpoints(), c.Endpoints())

	// There is no other member.
	c.SetEndpoints(behind.Endpoint())
	require.Eventually(t, func() bool {
		_, err := kv.Get(ctx, "k000", clientv3.WithSerializable())
		return assert.ObjectsAreEqual(ordering.ErrNoGreaterRev, err)
	}, patience, 10*time.Millisecond)
	cluster.Heal()
	require.Eventually(t, func() bool {
		resp, err := kv.Get(ctx, "k000", clientv3.WithSerializable())
		return err == nil && resp.Header.Revision >= seen
	}, patience, 10*time.Millisecond)
	readsNew(ctx, t, kv, seen, keys)
}

// readsNew reads in every way that a member answers by itself.
func readsNew(ctx context.Context, t *testing.T, kv clientv3.KV, seen int64, keys int) {
	t.Helper()
	get, err := kv.Get(ctx, "k000", clientv3.WithSerializable())
	require.NoError(t, err)
	require.GreaterOrEqual(t, get.Header.Revision, seen)
	require.Equal(t, "new", string(get.Kvs[0].Value))

	txn, err := kv.Txn(ctx).Then(clientv3.OpGet("k000", clientv3.WithSerializable())).Commit()
	require.NoError(t, err)
	require.GreaterOrEqual(t, txn.Header.Revision, seen)
	require.Equal(t, "new", string(txn.Responses[0].GetResponseRange().Kvs[0].Value))

	chunks, err := kv.GetStream(ctx, "k", clientv3.WithPrefix(), clientv3.WithSerializable())
	require.NoError(t, err)
	all, err := clientv3.GetStreamToGetResponse(chunks)
	require.NoError(t, err)
	require.GreaterOrEqual(t, all.Header.Revision, seen)
	require.Len(t, all.Kvs, keys)
	for _, kv := range all.Kvs {
		require.Equal(t, "new", string(kv.Value))
	}
}
