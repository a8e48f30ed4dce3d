package behaviours

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func puts(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	log.Step("new key")(c.Put(ctx, "put/a", "1"))
	log.Step("previous value")(c.Put(ctx, "put/a", "3", clientv3.WithPrevKV()))
	log.Step("bytes of any kind")(c.Put(ctx, "put/\x00\xff", "\xff\x00"))

	grant := ok(c.Grant(ctx, 3600))
	log.Step("lease")(c.Put(ctx, "put/l", "1", clientv3.WithLease(grant.ID)))
	log.Step("ignore lease")(c.Put(ctx, "put/l", "2", clientv3.WithIgnoreLease(), clientv3.WithPrevKV()))
	log.Step("ignore value")(c.Put(ctx, "put/l", "", clientv3.WithIgnoreValue(), clientv3.WithLease(grant.ID)))
	log.Step("both kept")(c.Get(ctx, "put/l"))
	log.Step("revoke")(c.Revoke(ctx, grant.ID))

	log.Step("unknown lease")(c.Put(ctx, "put/l", "1", clientv3.WithLease(12345)))
	log.Step("empty key")(c.Put(ctx, "", "1"))

	log.Panic("range", func() { _, _ = c.Put(ctx, "put/a", "1", clientv3.WithPrefix()) })
}

func deletes(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	for _, key := range []string{"del/a", "del/b", "del/c", "del/d", "del/e", "dem/a"} {
		ok(c.Put(ctx, key, "value of "+key))
	}
	log.Step("one key")(c.Delete(ctx, "del/a"))
	log.Step("previous value")(c.Delete(ctx, "del/b", clientv3.WithPrevKV()))
	log.Step("range")(c.Delete(ctx, "del/c", clientv3.WithRange("del/e"), clientv3.WithPrevKV()))
	log.Step("prefix")(c.Delete(ctx, "del/", clientv3.WithPrefix()))
	log.Step("empty key")(c.Delete(ctx, ""))
	log.Step("from key")(c.Delete(ctx, "dem/", clientv3.WithFromKey(), clientv3.WithPrevKV()))
	log.Step("all")(c.Delete(ctx, "", clientv3.WithPrefix()))
	log.Panic("limit", func() { _, _ = c.Delete(ctx, "del/", clientv3.WithLimit(1)) })
}

func dos(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	for _, o := range []struct {
		name string
		op   clientv3.Op
	}{
		{"put", clientv3.OpPut("do/a", "1", clientv3.WithPrevKV())},
		{"get", clientv3.OpGet("do/", clientv3.WithPrefix())},
		{"txn", clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.Value("do/a"), "=", "1")},
			[]clientv3.Op{clientv3.OpPut("do/b", "2"), clientv3.OpGet("do/b")},
			[]clientv3.Op{clientv3.OpDelete("do/a")},
		)},
		{"delete", clientv3.OpDelete("do/", clientv3.WithPrefix(), clientv3.WithPrevKV())},
		{"watch is a get", clientv3.OpWatch("do/a", clientv3.WithRev(1))},
		{"failing put", clientv3.OpPut("", "1")},
		{"invalid sort", clientv3.OpGet("do/", clientv3.WithPrefix(), clientv3.WithSort(99, clientv3.SortAscend))},
	} {
		resp, err := c.Do(ctx, o.op)
		log.Error(o.name, err)
		log.Value(o.name+": put", resp.Put())
		log.Value(o.name+": get", resp.Get())
		log.Value(o.name+": delete", resp.Del())
		log.Value(o.name+": txn", resp.Txn())
	}
	log.Panic("zero op", func() { _, _ = c.Do(ctx, clientv3.Op{}) })
	log.Panic("new op", func() { _, _ = c.Do(ctx, *clientv3.NewOp()) })
}

// request asks for a key or a range, with options.
type request struct {
	name, key string
	opts      []clientv3.OpOption
}

// seed writes keys whose orders by key, version, revisions and value all differ, and returns the first revision.
func seed(ctx context.Context, c *clientv3.Client, prefix string) int64 {
	var first int64
	for i, key := range []string{"c", "a", "e", "b", "d", "e", "a", "e", "b"} {
		resp := ok(c.Put(ctx, prefix+key, fmt.Sprint((i*7)%10)))
		if i == 0 {
			first = resp.Header.GetRevision()
		}
	}
	return first
}

func gets(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	reads(ctx, c, log, "get/", c.Get)
	for target := clientv3.SortByKey; target <= clientv3.SortByValue+1; target++ {
		for order := clientv3.SortNone; order <= clientv3.SortDescend+1; order++ {
			name := fmt.Sprintf("sort by %d, order %d", target, order)
			log.Step(name)(c.Get(ctx, "get/", clientv3.WithPrefix(), clientv3.WithSort(target, order)))
			log.Step(name + ", limit")(c.Get(ctx, "get/", clientv3.WithPrefix(), clientv3.WithSort(target, order), clientv3.WithLimit(3)))
		}
	}
	log.Step("leader required")(c.Get(clientv3.WithRequireLeader(ctx), "get/a"))
}

// streams makes the same reads by GetStream.
func streams(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	reads(ctx, c, log, "stream/", func(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
		return gather(c.GetStream(ctx, key, opts...))
	})
	for _, sort := range []clientv3.OpOption{
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend),
		clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend), clientv3.WithSort(99, clientv3.SortAscend),
	} {
		log.Step("sorted")(gather(c.GetStream(ctx, "stream/", clientv3.WithPrefix(), sort)))
	}
	now := ok(c.Get(ctx, "stream/")).Header.Revision
	ok(c.Compact(ctx, now))
	log.Step("compacted revision")(gather(c.GetStream(ctx, "stream/", clientv3.WithPrefix(), clientv3.WithRev(now-1))))
	longStreams(ctx, c, log)
}

type get = func(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)

// reads writes keys below a directory and reads them with every option.
func reads(ctx context.Context, c *clientv3.Client, log *transcript.Log, dir string, get get) {
	first := seed(ctx, c, dir)
	prefix := clientv3.WithPrefix()
	for _, r := range []request{
		{"key", dir + "a", nil},
		{"missing key", dir + "none", nil},
		{"empty key", "", nil},
		{"range", dir + "b", []clientv3.OpOption{clientv3.WithRange(dir + "d")}},
		{"prefix", dir, []clientv3.OpOption{prefix}},
		{"prefix of all", "", []clientv3.OpOption{prefix}},
		{"prefix without end", "\xff\xff", []clientv3.OpOption{prefix}},
		{"from key", dir + "d", []clientv3.OpOption{clientv3.WithFromKey()}},
		{"from no key", "", []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithLimit(2)}},
		{"limit", dir, []clientv3.OpOption{prefix, clientv3.WithLimit(2)}},
		{"revision", dir, []clientv3.OpOption{prefix, clientv3.WithRev(first + 3)}},
		{"future revision", dir + "a", []clientv3.OpOption{clientv3.WithRev(1 << 40)}},
		{"keys only", dir, []clientv3.OpOption{prefix, clientv3.WithKeysOnly()}},
		{"count only", dir, []clientv3.OpOption{prefix, clientv3.WithCountOnly()}},
		{"serializable", dir, []clientv3.OpOption{prefix, clientv3.WithSerializable()}},
		{"least mod revision", dir, []clientv3.OpOption{prefix, clientv3.WithMinModRev(first + 5)}},
		{"most mod revision", dir, []clientv3.OpOption{prefix, clientv3.WithMaxModRev(first + 5)}},
		{"least create revision", dir, []clientv3.OpOption{prefix, clientv3.WithMinCreateRev(first + 2)}},
		{"most create revision", dir, []clientv3.OpOption{prefix, clientv3.WithMaxCreateRev(first + 2)}},
		{"first create", dir, clientv3.WithFirstCreate()},
		{"last create", dir, clientv3.WithLastCreate()},
		{"first key", dir, clientv3.WithFirstKey()},
		{"last key", dir, clientv3.WithLastKey()},
		{"first revision", dir, clientv3.WithFirstRev()},
		{"last revision", dir, clientv3.WithLastRev()},
	} {
		log.Step(r.name)(get(ctx, r.key, r.opts...))
	}
	log.Panic("prefix and from key", func() { _, _ = get(ctx, dir, prefix, clientv3.WithFromKey()) })
}

func compacts(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	first := seed(ctx, c, "compact/")
	log.Step("compact")(c.Compact(ctx, first+2))
	log.Step("before")(c.Compact(ctx, first))
	log.Step("future")(c.Compact(ctx, 1<<40))
	log.Step("physical")(c.Compact(ctx, first+4, clientv3.WithCompactPhysical()))
	log.Step("read at a compacted revision")(c.Get(ctx, "compact/", clientv3.WithPrefix(), clientv3.WithRev(first+3)))
	log.Step("read now")(c.Get(ctx, "compact/", clientv3.WithPrefix()))
}

// gather reads a stream to its end.
func gather(stream clientv3.GetStreamChan, err error) (*clientv3.GetResponse, error) {
	if err != nil {
		return nil, err
	}
	return clientv3.GetStreamToGetResponse(stream)
}

// longStreams reads ranges that arrive in several chunks. The server chooses the boundaries.
func longStreams(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	value := strings.Repeat("v", 20_000)
	const keys = 100
	puts := make([]clientv3.Op, 0, keys)
	for i := range keys {
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("long/%03d", i), value))
	}
	for half := range 2 {
		ok(c.Txn(ctx).Then(puts[keys/2*half : keys/2*(half+1)]...).Commit())
	}
	log.Step("long")(gather(c.GetStream(ctx, "long/", clientv3.WithPrefix())))
	log.Step("long, limit")(gather(c.GetStream(ctx, "long/", clientv3.WithPrefix(), clientv3.WithLimit(70))))
	log.Step("clean up")(c.Delete(ctx, "long/", clientv3.WithPrefix()))
}

// txns takes the branches of transactions. The messages of comparisons are in compares, their results in TestRandomCalls.
func txns(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	yes := clientv3.Compare(clientv3.Version("txn/none"), "=", 0)
	no := clientv3.Compare(clientv3.Version("txn/none"), ">", 0)
	put, get := clientv3.OpPut("txn/b", "1", clientv3.WithPrevKV()), clientv3.OpGet("txn/", clientv3.WithPrefix())
	drop := clientv3.OpDelete("txn/b", clientv3.WithPrevKV())

	log.Step("empty")(c.Txn(ctx).Commit())
	log.Step("if alone")(c.Txn(ctx).If(no).Commit())
	log.Step("then alone")(c.Txn(ctx).Then(put, get).Commit())
	log.Step("else alone")(c.Txn(ctx).Else(drop).Commit())
	log.Step("then taken")(c.Txn(ctx).If(yes).Then(put, get, drop).Else(get).Commit())
	log.Step("else taken")(c.Txn(ctx).If(yes, no).Then(put).Else(get, put).Commit())
	log.Step("read-only")(c.Txn(ctx).If(yes).Then(get).Commit())
	log.Step("read-only, serializable")(c.Txn(ctx).Then(clientv3.OpGet("txn/b", clientv3.WithSerializable())).Commit())
	log.Step("nested")(c.Txn(ctx).If(yes).Then(
		put,
		clientv3.OpTxn([]clientv3.Cmp{no}, nil, []clientv3.Op{
			clientv3.OpPut("txn/c", "2"),
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("txn/c")}, nil),
		}),
	).Commit())
	log.Step("nested, read-only")(c.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{get}, nil)).Commit())
	log.Step("empty ops")(c.Txn(ctx).If().Then().Else().Commit())
}

func txnErrors(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	put, get := clientv3.OpPut("txn/e", "1"), clientv3.OpGet("txn/e")
	log.Step("duplicate key")(c.Txn(ctx).Then(put, put).Commit())
	log.Step("empty key")(c.Txn(ctx).Then(clientv3.OpPut("", "1")).Commit())
	log.Step("incomplete comparison")(c.Txn(ctx).If(clientv3.Value("txn/e")).Then(get).Commit())
	log.Step("zero comparison")(c.Txn(ctx).If(clientv3.Cmp{}).Then(get).Commit())

	log.Panic("if twice", func() { c.Txn(ctx).If().If() })
	log.Panic("if after then", func() { c.Txn(ctx).Then().If() })
	log.Panic("if after else", func() { c.Txn(ctx).Else().If() })
	log.Panic("then twice", func() { c.Txn(ctx).Then().Then() })
	log.Panic("then after else", func() { c.Txn(ctx).Else().Then() })
	log.Panic("else twice", func() { c.Txn(ctx).Else().Else() })
	log.Panic("zero op", func() { c.Txn(ctx).Then(clientv3.Op{}) })
	log.Panic("new op", func() { c.Txn(ctx).Else(*clientv3.NewOp()) })
	log.Panic("zero op, nested", func() { c.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{{}}, nil)) })

	reused := c.Txn(ctx).If().Then(clientv3.OpPut("txn/e", "1"))
	log.Step("commit")(reused.Commit())
	log.Step("commit again")(reused.Commit())
	log.Step("clean up")(c.Delete(ctx, "txn/", clientv3.WithPrefix()))
}
