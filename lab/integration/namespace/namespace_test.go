// Package namespace_test holds namespaces against a real store that has keys on every
// side of them.
package namespace_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/namespace"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// names are the keys that every namespace gets.
var names = func() []string {
	names := []string{"\x00", "a", "a\x00", "b", "\xff", "\xff\xff"}
	for i := range 50 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	slices.Sort(names)
	return names
}()

// around are keys outside of all namespaces, and next to them.
var around = []string{"\x00", "a", "a\xff", "b", "ns", "ns/", "ns0", "nt", "\xfe", "\xff", "\xff\xfe", "\xff\xff"}

func keysOf(kvs []*mvccpb.KeyValue) []string {
	keys := make([]string, len(kvs))
	for i := range kvs {
		keys[i] = string(kvs[i].Key)
	}
	return keys
}

// TestNamespaces has several namespaces in one store, filled, read in every way, and
// emptied, without one of them or the rest of the store noticing another.
func TestNamespaces(t *testing.T) {
	ctx := labtest.Context(t)
	cluster := labtest.Start(t, lab.Config{Members: 1})
	c := labtest.Client(t, clientv3.Config{Endpoints: cluster.Endpoints()})

	for _, key := range around {
		_, err := c.Put(ctx, key, "around")
		require.NoError(t, err)
	}
	prefixes := []string{"ns/", "a\xff", "\xff\xff"}
	lease, err := c.Grant(ctx, 600)
	require.NoError(t, err)
	for _, prefix := range prefixes {
		kv := namespace.NewKV(c, prefix)
		for _, name := range names {
			_, err := kv.Put(ctx, name, prefix, clientv3.WithLease(lease.ID))
			require.NoError(t, err)
		}
	}
	for _, prefix := range prefixes {
		t.Run(fmt.Sprintf("%q", prefix), func(t *testing.T) {
			kv := namespace.NewKV(c, prefix)
			reads(ctx, t, kv)
			transactions(ctx, t, kv)
			attached(ctx, t, namespace.NewLease(c, prefix), lease.ID)
			deleted, err := kv.Delete(ctx, "", clientv3.WithPrefix(), clientv3.WithPrevKV())
			require.NoError(t, err)
			require.Equal(t, names, keysOf(deleted.PrevKvs))
			watched(ctx, t, namespace.NewWatcher(clientv3.NewWatcher(c), prefix))
		})
	}
	left, err := c.Get(ctx, "", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Equal(t, around, keysOf(left.Kvs))
	for _, kv := range left.Kvs {
		require.EqualValues(t, 1, kv.Version, "%q", kv.Key)
	}
}

func reads(ctx context.Context, t *testing.T, kv clientv3.KV) {
	for name, read := range map[string]struct {
		key    string
		opt    clientv3.OpOption
		wanted func(name string) bool
	}{
		"all":      {"", clientv3.WithPrefix(), func(string) bool { return true }},
		"from key": {"b", clientv3.WithFromKey(), func(name string) bool { return name >= "b" }},
		"prefix":   {"a", clientv3.WithPrefix(), func(name string) bool { return strings.HasPrefix(name, "a") }},
		"0xff":     {"\xff", clientv3.WithPrefix(), func(name string) bool { return strings.HasPrefix(name, "\xff") }},
		"range":    {"a\x00", clientv3.WithRange("n10"), func(name string) bool { return name >= "a\x00" && name < "n10" }},
		"one key":  {"a", clientv3.WithLimit(0), func(name string) bool { return name == "a" }},
	} {
		var want []string
		for _, n := range names {
			if read.wanted(n) {
				want = append(want, n)
			}
		}
		get, err := kv.Get(ctx, read.key, read.opt)
		require.NoError(t, err)
		require.Equal(t, want, keysOf(get.Kvs), name)
		chunks, err := kv.GetStream(ctx, read.key, read.opt)
		require.NoError(t, err)
		get, err = clientv3.GetStreamToGetResponse(chunks)
		require.NoError(t, err)
		require.Equal(t, want, keysOf(get.Kvs), name)
	}
}

func transactions(ctx context.Context, t *testing.T, kv clientv3.KV) {
	commit := func(holds bool, cmps ...clientv3.Cmp) *pb.TxnResponse {
		resp, err := kv.Txn(ctx).If(cmps...).
			Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("n", clientv3.WithPrefix(), clientv3.WithLimit(1))}, nil)).
			Commit()
		require.NoError(t, err)
		require.Equal(t, holds, resp.Succeeded)
		return (*pb.TxnResponse)(resp)
	}
	once := func(key string) clientv3.Cmp { return clientv3.Compare(clientv3.Version(key), "=", 1) }
	never := func(key string) clientv3.Cmp { return clientv3.Compare(clientv3.Value(key), "=", "around") }
	resp := commit(true, once("a"), once("\x00").WithRange("\x00"), once("n").WithPrefix(), once("").WithPrefix(), once("a").WithRange("c"))
	require.Equal(t, []string{"n00"}, keysOf(resp.Responses[0].GetResponseTxn().Responses[0].GetResponseRange().Kvs))
	commit(false, never("a"))
	commit(false, never("\x00").WithRange("\x00"))
	_, err := kv.Txn(ctx).Then(clientv3.OpPut("", "the key that equals the prefix")).Commit()
	require.Equal(t, rpctypes.ErrEmptyKey, err)
}

func attached(ctx context.Context, t *testing.T, l clientv3.Lease, id clientv3.LeaseID) {
	resp, err := l.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
	require.NoError(t, err)
	var keys []string
	for _, key := range resp.Keys {
		keys = append(keys, string(key))
	}
	require.ElementsMatch(t, names, keys)
}

// watched watches a namespace that was filled and emptied.
func watched(ctx context.Context, t *testing.T, w clientv3.Watcher) {
	var put, deleted []string
	for resp := range w.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV()) {
		require.NoError(t, resp.Err())
		for _, event := range resp.Events {
			if event.Type == clientv3.EventTypePut {
				put = append(put, string(event.Kv.Key))
				continue
			}
			deleted = append(deleted, string(event.PrevKv.Key))
		}
		if len(deleted) >= len(names) {
			break
		}
	}
	require.Equal(t, names, put)
	require.Equal(t, names, deleted)
	require.NoError(t, w.Close())
}
