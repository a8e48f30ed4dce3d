// Package batch_test shares RPCs of a real server, whose bounds, leases, permissions and quota no
// fake has.
package batch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/clientv3/concurrency"
	recipe "github.com/quorate/quorate/clientv3/experimental/recipes"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

const (
	// patience is far above what a test takes; one that hangs is ended by it.
	patience = 2 * time.Minute
	// callers are enough that most calls share an RPC.
	callers = 200
)

// shareAll shares whatever meets another call.
var shareAll = batch.Config{JoinReads: true, GroupWrites: true, MaxAlone: 1}

// start starts a member and connects a client.
func start(t *testing.T, args ...string) (context.Context, *clientv3.Client, *lab.Cluster) {
	t.Helper()
	cluster := labtest.Start(t, lab.Config{Members: 1, Args: args})
	return labtest.Within(t, patience), labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()}), cluster
}

// all does something for all callers at once.
func all(do func(i int)) {
	var work sync.WaitGroup
	for i := range callers {
		work.Go(func() { do(i) })
	}
	work.Wait()
}

// counting counts the Txns of a KV.
type counting struct {
	clientv3.KV

	mu   sync.Mutex
	txns int
}

func (c *counting) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if op.IsTxn() {
		c.mu.Lock()
		c.txns++
		c.mu.Unlock()
	}
	return c.KV.Do(ctx, op)
}

// writeAndRead has all callers write and read keys of their own, and read one of all.
func writeAndRead(ctx context.Context, t *testing.T, kv clientv3.KV, prefix, value string) {
	t.Helper()
	all(func(i int) {
		key := fmt.Sprint(prefix, i)
		put, err := kv.Put(ctx, key, value, clientv3.WithPrevKV())
		if !assert.NoError(t, err) || !assert.Nil(t, put.PrevKv) {
			return
		}
		got, err := kv.Get(ctx, key)
		if !assert.NoError(t, err) || !assert.Len(t, got.Kvs, 1) {
			return
		}
		assert.Equal(t, value, string(got.Kvs[0].Value))
		assert.Equal(t, put.Header.Revision, got.Kvs[0].ModRevision)
		assert.GreaterOrEqual(t, got.Header.Revision, put.Header.Revision)
		assert.NotZero(t, got.Header.MemberId)
		_, err = kv.Get(ctx, prefix+"0")
		assert.NoError(t, err)
	})
	all(func(i int) {
		deleted, err := kv.Delete(ctx, fmt.Sprint(prefix, i), clientv3.WithPrevKV())
		if assert.NoError(t, err) && assert.Len(t, deleted.PrevKvs, 1) {
			assert.Equal(t, value, string(deleted.PrevKvs[0].Value))
		}
	})
}

func TestServersBounds(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		args        []string
	}{
		{"etcd's", "v", nil},
		{"few operations", "v", []string{"--max-txn-ops=5"}},
		{"small requests", strings.Repeat("v", 1000), []string{"--max-request-bytes=20000"}},
		{"large values", strings.Repeat("v", 60<<10), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, client, _ := start(t, tt.args...)
			counter := &counting{KV: client.KV}
			kv := batch.New(counter, shareAll)
			for round := range 3 {
				writeAndRead(ctx, t, kv, fmt.Sprint("round", round, "/"), tt.value)
			}
			assert.Positive(t, counter.txns)
		})
	}
}

// TestLeaseThatEnded has some of the puts attached to a lease that does not exist.
func TestLeaseThatEnded(t *testing.T) {
	ctx, client, _ := start(t)
	client.KV = batch.New(client, shareAll)
	lease, err := client.Grant(ctx, 600)
	require.NoError(t, err)
	all(func(i int) {
		id := lease.ID
		if i%50 == 0 {
			id++
		}
		_, err := client.Put(ctx, fmt.Sprint("k", i), "v", clientv3.WithLease(id))
		if id != lease.ID {
			assert.Equal(t, rpctypes.ErrLeaseNotFound, err)
			return
		}
		assert.NoError(t, err)
	})
	written, err := client.Get(ctx, "k", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, written.Kvs, callers-callers/50)
	for _, kv := range written.Kvs {
		require.EqualValues(t, 1, kv.Version, kv.Key)
	}
}

// TestPermissions has a user who may read and write half of the keys.
func TestPermissions(t *testing.T) {
	ctx, _, cluster := start(t)
	_, client := labtest.EnableAuth(ctx, t, cluster, "half", clientv3.PermReadWrite, "mine/")
	client.KV = batch.New(client, shareAll)
	all(func(i int) {
		if i%20 == 0 {
			_, err := client.Put(ctx, fmt.Sprint("others/", i), "v")
			assert.Equal(t, rpctypes.ErrPermissionDenied, err)
			_, err = client.Get(ctx, fmt.Sprint("others/", i))
			assert.Equal(t, rpctypes.ErrPermissionDenied, err)
			return
		}
		_, err := client.Put(ctx, fmt.Sprint("mine/", i), "v")
		assert.NoError(t, err)
		_, err = client.Get(ctx, fmt.Sprint("mine/", i))
		assert.NoError(t, err)
	})
}

// TestFullStore deletes keys of a store that takes no puts any more.
func TestFullStore(t *testing.T) {
	ctx, client, _ := start(t, fmt.Sprint("--quota-backend-bytes=", 4<<20))
	client.KV = batch.New(client, shareAll)
	full := func(err error) bool { return err != nil && strings.Contains(err.Error(), "database space exceeded") }
	var mu sync.Mutex
	var written []string
	all(func(i int) {
		for n := range 100 {
			key := fmt.Sprint("k", i, "/", n)
			if _, err := client.Put(ctx, key, strings.Repeat("v", 1000)); err != nil {
				assert.True(t, full(err), err)
				return
			}
			mu.Lock()
			written = append(written, key)
			mu.Unlock()
		}
	})
	require.Greater(t, len(written), callers)
	all(func(i int) {
		if i%2 == 0 {
			_, err := client.Put(ctx, "more", "v")
			assert.True(t, full(err), err)
			return
		}
		deleted, err := client.Delete(ctx, written[i])
		if assert.NoError(t, err) {
			assert.EqualValues(t, 1, deleted.Deleted)
		}
	})
}

// TestWatchSeesAGroupAtOnce compares what a watch receives with the revisions of the responses.
func TestWatchSeesAGroupAtOnce(t *testing.T) {
	ctx, client, _ := start(t)
	client.KV = batch.New(client, shareAll)
	events := client.Watch(ctx, "k", clientv3.WithPrefix())
	var mu sync.Mutex
	keysAt := map[int64]int{}
	all(func(i int) {
		put, err := client.Put(ctx, fmt.Sprint("k", i), "v")
		if assert.NoError(t, err) {
			mu.Lock()
			keysAt[put.Header.Revision]++
			mu.Unlock()
		}
	})
	require.Less(t, len(keysAt), callers, "nothing was grouped")
	for seen := 0; seen < callers; {
		response := <-events
		require.NoError(t, response.Err())
		for _, event := range response.Events {
			keysAt[event.Kv.ModRevision]--
			seen++
		}
		for _, event := range response.Events {
			require.Zero(t, keysAt[event.Kv.ModRevision], "the keys of a revision came in several responses")
		}
	}
}

// TestLocksAndQueuesKeepTheirOrder uses what orders keys by their revision, beside grouped puts.
func TestLocksAndQueuesKeepTheirOrder(t *testing.T) {
	ctx, client, _ := start(t)
	client.KV = batch.New(client, shareAll)
	session, err := concurrency.NewSession(client)
	require.NoError(t, err)
	defer session.Close()
	queue := recipe.NewQueue(client, "queue")
	var mu sync.Mutex
	held := 0
	all(func(i int) {
		_, err := client.Put(ctx, fmt.Sprint("beside/", i), "v")
		assert.NoError(t, err)
		if i%10 == 0 {
			own, err := concurrency.NewSession(client)
			if !assert.NoError(t, err) {
				return
			}
			defer own.Close()
			lock := concurrency.NewMutex(own, "lock/")
			if !assert.NoError(t, lock.Lock(ctx)) {
				return
			}
			mu.Lock()
			held++
			assert.Equal(t, 1, held)
			mu.Unlock()
			_, err = client.Get(ctx, lock.Key())
			assert.NoError(t, err)
			mu.Lock()
			held--
			mu.Unlock()
			assert.NoError(t, lock.Unlock(ctx))
			return
		}
		assert.NoError(t, queue.Enqueue(fmt.Sprint(i)))
	})
	queued, err := client.Get(ctx, "queue", clientv3.WithPrefix())
	require.NoError(t, err)
	created := map[int64]bool{}
	for _, kv := range queued.Kvs {
		require.False(t, created[kv.CreateRevision], "two elements of a queue have one revision")
		created[kv.CreateRevision] = true
	}
	require.Len(t, created, callers-callers/10)
}

// TestCloseEndsWaitingCalls closes the client while the member is stopped.
func TestCloseEndsWaitingCalls(t *testing.T) {
	ctx, client, cluster := start(t)
	client.KV = batch.New(client, shareAll)
	_, err := client.Put(ctx, "k", "v")
	require.NoError(t, err)
	member := cluster.Members()[0]
	require.NoError(t, member.Stop())
	var calls sync.WaitGroup
	for i := range callers {
		calls.Go(func() {
			_, err := client.Put(ctx, fmt.Sprint("k", i), "v")
			assert.Error(t, err)
		})
		calls.Go(func() {
			_, err := client.Get(ctx, "k")
			assert.Error(t, err)
		})
	}
	require.NoError(t, client.Close())
	calls.Wait()
	require.NoError(t, ctx.Err())
	require.NoError(t, member.Continue())
}
