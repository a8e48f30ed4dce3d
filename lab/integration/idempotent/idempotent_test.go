// Package idempotent_test writes through lanes of real servers, whose nested transactions, history and bounds no fake has.
package idempotent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// patience is far above what a test takes; one that hangs is ended by it.
const patience = 2 * time.Minute

// loser loses the answer to the next Txn when it is armed.
type loser struct{ armed, lost atomic.Bool }

func (l *loser) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err == nil && method == pb.KV_Txn_FullMethodName && l.armed.CompareAndSwap(true, false) {
		l.lost.Store(true)
		return status.Error(codes.Unavailable, "the answer is lost")
	}
	return err
}

// TestRebuiltResponses compares responses that were lost and made again with those of a plain client.
func TestRebuiltResponses(t *testing.T) {
	ctx := labtest.Within(t, patience)
	cluster := labtest.Start(t, lab.Config{Members: 1})
	loser := new(loser)
	client := labtest.Client(t, clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(loser.intercept)},
	})
	kv, err := idempotent.New(ctx, client, idempotent.Config{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, kv.Close()) }()

	exists := []clientv3.Cmp{clientv3.Compare(clientv3.Version("a1"), ">", 0)}
	absent := []clientv3.Cmp{clientv3.Compare(clientv3.Version("a1"), "=", 0)}
	prefix, prev := clientv3.WithPrefix(), clientv3.WithPrevKV()
	many := make([]clientv3.Op, 0, 126)
	for i := range cap(many) {
		many = append(many, clientv3.OpPut(fmt.Sprint("many", i), "v", prev))
	}
	for name, op := range map[string]clientv3.Op{
		"put":                     clientv3.OpPut("a1", "new", prev),
		"delete":                  clientv3.OpDelete("a", prefix, prev),
		"delete, a count":         clientv3.OpDelete("a", prefix),
		"delete of nothing":       clientv3.OpDelete("b"),
		"txn":                     clientv3.OpTxn(exists, []clientv3.Op{clientv3.OpGet("a", prefix), clientv3.OpPut("a1", "new", prev)}, nil),
		"txn, otherwise":          clientv3.OpTxn(absent, []clientv3.Op{clientv3.OpDelete("a", prefix)}, []clientv3.Op{clientv3.OpDelete("a2", prev), clientv3.OpGet("a", prefix)}),
		"txn without comparisons": clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("a1", "new"), clientv3.OpGet("a1", clientv3.WithSerializable())}, nil),
		"as many as can be":       clientv3.OpTxn(exists, many, nil),
	} {
		run := func(kv clientv3.KV) string {
			_, err := client.Delete(ctx, "a", clientv3.WithRange("z"))
			require.NoError(t, err)
			for i := range 3 {
				_, err := client.Put(ctx, fmt.Sprint("a", i), fmt.Sprint(i))
				require.NoError(t, err)
			}
			resp, err := kv.Do(ctx, op)
			require.NoError(t, err, name)
			after, err := client.Get(ctx, "a", clientv3.WithRange("z"))
			require.NoError(t, err)
			return summary(resp) + " leaves " + keys(after)
		}
		want := run(clientv3.NewKV(client))
		assert.Equal(t, want, run(kv), name)
		loser.lost.Store(false)
		assert.Equal(t, want, run(armed{kv, loser}), "%s, answer lost", name)
		assert.True(t, loser.lost.Load())
	}
}

// armed is a KV whose next answer is lost.
type armed struct {
	clientv3.KV
	loser *loser
}

func (a armed) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	a.loser.armed.Store(true)
	return a.KV.Do(ctx, op)
}

func keys(r *clientv3.GetResponse) string {
	var all []string
	for _, kv := range r.Kvs {
		all = append(all, fmt.Sprintf("%s=%s,%d", kv.Key, kv.Value, kv.Version))
	}
	return fmt.Sprint(r.Count, r.More, all)
}

// summary describes a response without revisions.
func summary(r clientv3.OpResponse) string {
	switch {
	case r.Put() != nil:
		return fmt.Sprintf("put %s", r.Put().PrevKv.GetValue())
	case r.Get() != nil:
		return "get " + keys(r.Get())
	case r.Del() != nil:
		return "delete " + keys(&clientv3.GetResponse{Kvs: r.Del().PrevKvs, Count: r.Del().Deleted})
	}
	var parts []string
	for _, op := range r.Txn().Responses {
		switch {
		case op.GetResponsePut() != nil:
			parts = append(parts, summary((*clientv3.PutResponse)(op.GetResponsePut()).OpResponse()))
		case op.GetResponseRange() != nil:
			parts = append(parts, summary((*clientv3.GetResponse)(op.GetResponseRange()).OpResponse()))
		case op.GetResponseDeleteRange() != nil:
			parts = append(parts, summary((*clientv3.DeleteResponse)(op.GetResponseDeleteRange()).OpResponse()))
		}
	}
	return fmt.Sprint("txn ", r.Txn().Succeeded, " ", strings.Join(parts, "; "))
}

// TestFaults writes while members are frozen and killed: each write is executed once, and none ends with an error.
func TestFaults(t *testing.T) {
	ctx := labtest.Within(t, patience)
	cluster := labtest.Start(t, lab.Config{Members: 3})
	client := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	kv, err := idempotent.New(ctx, client, idempotent.Config{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, kv.Close()) }()

	var callers sync.WaitGroup
	done, written := make(chan struct{}), [6]int{}
	for i := range written {
		callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					written[i] = n
					return
				default:
				}
				_, err := kv.Put(ctx, fmt.Sprintf("caller%d/%d", i, n), "v")
				assert.NoError(t, err)
			}
		})
	}
	for _, m := range cluster.Members() {
		require.NoError(t, m.Stop())
		require.NoError(t, sleep(ctx, 2*time.Second))
		require.NoError(t, m.Continue())
		require.NoError(t, m.Kill())
		require.NoError(t, sleep(ctx, 2*time.Second))
		require.NoError(t, m.Restart(ctx))
		require.NoError(t, sleep(ctx, time.Second))
	}
	close(done)
	callers.Wait()
	for i, n := range written {
		all, err := client.Get(ctx, fmt.Sprintf("caller%d/", i), clientv3.WithPrefix())
		require.NoError(t, err)
		require.Len(t, all.Kvs, n)
		for _, kv := range all.Kvs {
			require.EqualValues(t, 1, kv.Version, "%s", kv.Key)
		}
	}
	t.Log(written, "writes")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
