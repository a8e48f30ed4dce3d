package behaviours

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var keys = []Behaviour{
	on(plain, "KV", "put and get", using(putAndGet)),
	on(plain, "KV", "put with options", using(putOptions)),
	on(plain, "KV", "get with a range and a limit", using(getRanges)),
	on(plain, "KV", "get sorted", using(getSorted)),
	on(plain, "KV", "get with bounds of revisions", using(getBounds)),
	on(plain, "KV", "get at a revision", using(getRevision)),
	on(plain, "KV", "get serializable", using(getSerializable)),
	on(plain, "KV", "delete with options", using(deleteOptions)),
	on(plain, "KV", "transaction of Kubernetes", using(kubernetesTxn)),
	on(plain, "KV", "transaction with every compare, nested", using(nestedTxn)),
	on(plain, "KV", "Do", using(doEach)),
	on(own, "KV", "compact", using(compacted)),
	on(plain, "KV", "1 MB values", using(largeValues)),
	long(on(plain, "KV", "10,000 keys, in pages", manyKeys)),
	on(plain, "KV", "errors are those of rpctypes", using(kvErrors)),
}

func putAndGet(ctx context.Context, c *clientv3.Client) {
	put := ok(c.Put(ctx, "/put/a", "1"))
	got := ok(c.Get(ctx, "/put/a"))
	want(len(got.Kvs) == 1 && string(got.Kvs[0].Value) == "1" && got.Kvs[0].ModRevision == put.Header.Revision, "got %v", got)
	ok(c.Put(ctx, "/put/a", "2"))
	got = ok(c.Get(ctx, "/put/a"))
	want(len(got.Kvs) == 1 && string(got.Kvs[0].Value) == "2" && got.Kvs[0].Version == 2, "got %v", got)
	want(ok(c.Get(ctx, "/put/none")).Count == 0, "a key that was never written")
}

func putOptions(ctx context.Context, c *clientv3.Client) {
	lease := ok(c.Grant(ctx, 600))
	ok(c.Put(ctx, "/options/a", "1", clientv3.WithLease(lease.ID)))
	put := ok(c.Put(ctx, "/options/a", "2", clientv3.WithPrevKV(), clientv3.WithIgnoreLease()))
	want(string(put.PrevKv.GetValue()) == "1", "previous %v", put.PrevKv)
	ok(c.Put(ctx, "/options/a", "", clientv3.WithIgnoreValue()))
	kv := ok(c.Get(ctx, "/options/a")).Kvs[0]
	want(string(kv.Value) == "2" && kv.Lease == 0, "got %v", kv)
}

func getRanges(ctx context.Context, c *clientv3.Client) {
	for _, k := range []string{"a", "b", "c", "d"} {
		create(ctx, c, "/ranges/"+k, k)
	}
	count := func(n int64, opts ...clientv3.OpOption) {
		got := ok(c.Get(ctx, "/ranges/", opts...))
		want(got.Count == n, "count %d, want %d", got.Count, n)
	}
	count(4, clientv3.WithPrefix())
	count(4, clientv3.WithPrefix(), clientv3.WithCountOnly())
	count(2, clientv3.WithRange("/ranges/c"))
	limited := ok(c.Get(ctx, "/ranges/", clientv3.WithPrefix(), clientv3.WithLimit(3)))
	want(len(limited.Kvs) == 3 && limited.More && limited.Count == 4, "limited to 3: %d, more %t, count %d", len(limited.Kvs), limited.More, limited.Count)
	names := ok(c.Get(ctx, "/ranges/", clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	want(len(names.Kvs) == 4 && len(names.Kvs[0].Value) == 0, "keys only: %v", names.Kvs)
	from := ok(c.Get(ctx, "/ranges/c", clientv3.WithFromKey(), clientv3.WithLimit(2)))
	want(len(from.Kvs) == 2 && string(from.Kvs[0].Key) == "/ranges/c", "from a key: %v", from.Kvs)
}

func getSorted(ctx context.Context, c *clientv3.Client) {
	for i, k := range []string{"b", "a", "c"} {
		create(ctx, c, "/sorted/"+k, fmt.Sprint(9-i))
	}
	for target, order := range map[clientv3.SortTarget]string{
		clientv3.SortByKey: "abc", clientv3.SortByCreateRevision: "bac", clientv3.SortByModRevision: "bac", clientv3.SortByValue: "cab",
	} {
		got := ok(c.Get(ctx, "/sorted/", clientv3.WithPrefix(), clientv3.WithSort(target, clientv3.SortAscend)))
		var names strings.Builder
		for _, kv := range got.Kvs {
			names.WriteString(strings.TrimPrefix(string(kv.Key), "/sorted/"))
		}
		want(names.String() == order, "sorted by %v: %s, want %s", target, names.String(), order)
	}
	last := ok(c.Get(ctx, "/sorted/", clientv3.WithLastKey()...))
	want(len(last.Kvs) == 1 && string(last.Kvs[0].Key) == "/sorted/c", "last key: %v", last.Kvs)
}

func getBounds(ctx context.Context, c *clientv3.Client) {
	first := create(ctx, c, "/bounds/a", "1")
	second := create(ctx, c, "/bounds/b", "1")
	for name, opt := range map[string]clientv3.OpOption{
		"min mod": clientv3.WithMinModRev(second), "max mod": clientv3.WithMaxModRev(first),
		"min create": clientv3.WithMinCreateRev(second), "max create": clientv3.WithMaxCreateRev(first),
	} {
		got := ok(c.Get(ctx, "/bounds/", clientv3.WithPrefix(), opt))
		want(len(got.Kvs) == 1, "%s: %v", name, got.Kvs)
	}
}

func getRevision(ctx context.Context, c *clientv3.Client) {
	first := create(ctx, c, "/revision/a", "1")
	update(ctx, c, "/revision/a", "2", first)
	old := ok(c.Get(ctx, "/revision/a", clientv3.WithRev(first)))
	want(len(old.Kvs) == 1 && string(old.Kvs[0].Value) == "1", "at the first revision: %v", old.Kvs)
	old = ok(c.Get(ctx, "/revision/", clientv3.WithPrefix(), clientv3.WithRev(first)))
	want(len(old.Kvs) == 1 && string(old.Kvs[0].Value) == "1", "prefix at the first revision: %v", old.Kvs)
}

func getSerializable(ctx context.Context, c *clientv3.Client) {
	create(ctx, c, "/serializable/a", "1")
	got := ok(c.Get(ctx, "/serializable/a", clientv3.WithSerializable()))
	want(len(got.Kvs) == 1, "got %v", got.Kvs)
}

func deleteOptions(ctx context.Context, c *clientv3.Client) {
	for _, k := range []string{"a", "b", "c", "d"} {
		create(ctx, c, "/delete/"+k, k)
	}
	one := ok(c.Delete(ctx, "/delete/a", clientv3.WithPrevKV()))
	want(one.Deleted == 1 && string(one.PrevKvs[0].Value) == "a", "one: %v", one)
	want(ok(c.Delete(ctx, "/delete/", clientv3.WithRange("/delete/c"))).Deleted == 1, "a range")
	want(ok(c.Delete(ctx, "/delete/", clientv3.WithPrefix())).Deleted == 2, "a prefix")
	want(ok(c.Delete(ctx, "/delete/a")).Deleted == 0, "one that is gone")
}

func kubernetesTxn(ctx context.Context, c *clientv3.Client) {
	first := create(ctx, c, "/kubernetes/a", "1")
	again := ok(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("/kubernetes/a"), "=", 0)).
		Then(clientv3.OpPut("/kubernetes/a", "x")).Commit())
	want(!again.Succeeded, "created twice")
	second := update(ctx, c, "/kubernetes/a", "2", first)
	stale := ok(c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("/kubernetes/a"), "=", first)).
		Then(clientv3.OpPut("/kubernetes/a", "x")).Else(clientv3.OpGet("/kubernetes/a")).Commit())
	kvs := stale.Responses[0].GetResponseRange().GetKvs()
	want(!stale.Succeeded && len(kvs) == 1 && kvs[0].ModRevision == second, "a stale update: %v", stale)
	remove(ctx, c, "/kubernetes/a", second)
	want(ok(c.Get(ctx, "/kubernetes/a")).Count == 0, "it is still there")
}

func nestedTxn(ctx context.Context, c *clientv3.Client) {
	ok(c.Put(ctx, "/txn/a", "1"))
	kv := ok(c.Get(ctx, "/txn/a")).Kvs[0]
	resp := ok(c.Txn(ctx).If(
		clientv3.Compare(clientv3.Value("/txn/a"), "=", "1"),
		clientv3.Compare(clientv3.Version("/txn/a"), ">", 0),
		clientv3.Compare(clientv3.CreateRevision("/txn/a"), "=", kv.CreateRevision),
		clientv3.Compare(clientv3.ModRevision("/txn/a"), "<", kv.ModRevision+1),
		clientv3.Compare(clientv3.LeaseValue("/txn/a"), "=", 0),
		clientv3.Compare(clientv3.Value("/txn/"), "!=", "x").WithPrefix(),
	).Then(
		clientv3.OpPut("/txn/b", "2"),
		clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("/txn/b"), clientv3.OpDelete("/txn/a")}, nil),
	).Else(clientv3.OpGet("/txn/a")).Commit())
	want(resp.Succeeded && len(resp.Responses) == 2, "got %v", resp)
	nested := resp.Responses[1].GetResponseTxn().GetResponses()
	want(len(nested) == 2 && nested[1].GetResponseDeleteRange().GetDeleted() == 1, "nested %v", nested)
	other := ok(c.Txn(ctx).If(clientv3.Compare(clientv3.Value("/txn/b"), "=", "x")).Else(clientv3.OpGet("/txn/b")).Commit())
	want(!other.Succeeded && len(other.Responses) == 1, "else: %v", other)
}

func doEach(ctx context.Context, c *clientv3.Client) {
	ok(c.Do(ctx, clientv3.OpPut("/do/a", "1")))
	got := ok(c.Do(ctx, clientv3.OpGet("/do/a")))
	want(len(got.Get().Kvs) == 1, "get %v", got.Get())
	deleted := ok(c.Do(ctx, clientv3.OpDelete("/do/a")))
	want(deleted.Del().Deleted == 1, "delete %v", deleted.Del())
}

func compacted(ctx context.Context, c *clientv3.Client) {
	first := create(ctx, c, "/compact/a", "1")
	last := update(ctx, c, "/compact/a", "2", update(ctx, c, "/compact/a", "3", first))
	ok(c.Compact(ctx, last, clientv3.WithCompactPhysical()))
	_, err := c.Get(ctx, "/compact/a", clientv3.WithRev(first))
	want(errors.Is(err, rpctypes.ErrCompacted), "get at a compacted revision: %v", err)
	_, err = c.Compact(ctx, last+1000)
	want(errors.Is(err, rpctypes.ErrFutureRev), "compact the future: %v", err)
	want(ok(c.Get(ctx, "/compact/a")).Count == 1, "the key is gone")
}

func largeValues(ctx context.Context, c *clientv3.Client) {
	watch := created(ctx, c, "/large/", clientv3.WithPrefix())
	value := strings.Repeat("x", 1<<20)
	for i := range 5 {
		create(ctx, c, fmt.Sprintf("/large/%d", i), value)
	}
	got := ok(c.Get(ctx, "/large/", clientv3.WithPrefix()))
	want(len(got.Kvs) == 5 && string(got.Kvs[4].Value) == value, "got %d keys", len(got.Kvs))
	want(string(events(ctx, watch, 5)[4].Kv.Value) == value, "another value in the event")
}

func manyKeys(ctx context.Context, s Site) {
	const writers, total, page = 16, 10_000, 1_000
	c := s.client()
	watch := created(ctx, c, "/many/", clientv3.WithPrefix())
	each(writers, func(w int) {
		for i := w; i < total; i += writers {
			create(ctx, c, fmt.Sprintf("/many/%05d", i), "value")
		}
	})
	first := ok(c.Get(ctx, "/many/", clientv3.WithPrefix(), clientv3.WithLimit(page)))
	want(first.Count == total, "count %d", first.Count)
	got, more := first.Kvs, first.More
	for more {
		resp := ok(c.Get(ctx, string(got[len(got)-1].Key)+"\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd("/many/")),
			clientv3.WithLimit(page), clientv3.WithRev(first.Header.Revision)))
		got, more = append(got, resp.Kvs...), resp.More
	}
	want(len(got) == total, "%d keys in pages", len(got))
	for i, kv := range got {
		want(string(kv.Key) == fmt.Sprintf("/many/%05d", i), "key %d is %s", i, kv.Key)
	}
	seen := make(map[string]bool)
	for _, e := range events(ctx, watch, total) {
		want(!seen[string(e.Kv.Key)], "two events of %s", e.Kv.Key)
		seen[string(e.Kv.Key)] = true
	}
}

func kvErrors(ctx context.Context, c *clientv3.Client) {
	_, err := c.Put(ctx, "", "x")
	want(errors.Is(err, rpctypes.ErrEmptyKey), "empty key: %v", err)
	_, err = c.Get(ctx, "/errors", clientv3.WithRev(1<<40))
	want(errors.Is(err, rpctypes.ErrFutureRev), "future revision: %v", err)
	_, err = c.Put(ctx, "/errors", "x", clientv3.WithLease(12345))
	want(errors.Is(err, rpctypes.ErrLeaseNotFound), "unknown lease: %v", err)
	_, err = c.Txn(ctx).Then(clientv3.OpPut("/errors", "1"), clientv3.OpPut("/errors", "2")).Commit()
	want(errors.Is(err, rpctypes.ErrDuplicateKey), "key twice: %v", err)
}
