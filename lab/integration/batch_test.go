package integration_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/batch"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness"
)

// sharers are enough callers that most calls share an RPC.
const sharers = 200

// shareAll shares whatever meets another call.
var shareAll = batch.Config{JoinReads: true, GroupWrites: true, MaxAlone: 1}

// startAlone starts a member and connects a client.
func startAlone(t *testing.T, args ...string) (context.Context, *clientv3.Client) {
	t.Helper()
	cluster := labtest.Start(t, lab.Config{Members: 1, Args: args})
	return grpctest.Within(t, testTimeout), labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})
}

// atOnce does something for all sharers at once.
func atOnce(do func(i int)) { <-robustness.Go(sharers, do) }

// counting counts the Txns of a KV.
type counting struct {
	clientv3.KV
	txns atomic.Int64
}

func (c *counting) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if op.IsTxn() {
		c.txns.Add(1)
	}
	return c.KV.Do(ctx, op)
}

// writeAndRead makes all sharers write and read keys of their own, and read one of all.
func writeAndRead(ctx context.Context, t *testing.T, kv clientv3.KV, prefix, value string) {
	t.Helper()
	atOnce(func(i int) {
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
	atOnce(func(i int) {
		deleted, err := kv.Delete(ctx, fmt.Sprint(prefix, i), clientv3.WithPrevKV())
		if assert.NoError(t, err) && assert.Len(t, deleted.PrevKvs, 1) {
			assert.Equal(t, value, string(deleted.PrevKvs[0].Value))
		}
	})
}

// Batches share RPCs of a real server, whose bounds and quota no fake has.
func TestBatchesKeepBounds(t *testing.T) {
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
			ctx, client := startAlone(t, tt.args...)
			counter := &counting{KV: client.KV}
			kv := batch.New(counter, shareAll)
			for round := range 2 {
				writeAndRead(ctx, t, kv, fmt.Sprint("round", round, "/"), tt.value)
			}
			assert.Positive(t, counter.txns.Load())
		})
	}
}

// TestBatchesOfAFullStore deletes keys of a store that takes no puts any more.
func TestBatchesOfAFullStore(t *testing.T) {
	ctx, client := startAlone(t, fmt.Sprint("--quota-backend-bytes=", 4<<20))
	client.KV = batch.New(client, shareAll)
	full := func(err error) bool { return err != nil && strings.Contains(err.Error(), "database space exceeded") }
	var mu sync.Mutex
	var written []string
	atOnce(func(i int) {
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
	require.Greater(t, len(written), sharers)
	atOnce(func(i int) {
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
