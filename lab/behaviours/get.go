package behaviours

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

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
	first := seed(ctx, c, "get/")
	prefix := clientv3.WithPrefix()
	reads := []request{
		{"key", "get/a", nil},
		{"missing key", "get/none", nil},
		{"empty key", "", nil},
		{"range", "get/b", []clientv3.OpOption{clientv3.WithRange("get/d")}},
		{"empty range", "get/d", []clientv3.OpOption{clientv3.WithRange("get/b")}},
		{"prefix", "get/", []clientv3.OpOption{prefix}},
		{"prefix of all", "", []clientv3.OpOption{prefix}},
		{"prefix without end", "\xff\xff", []clientv3.OpOption{prefix}},
		{"from key", "get/d", []clientv3.OpOption{clientv3.WithFromKey()}},
		{"from no key", "", []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithLimit(2)}},
		{"limit", "get/", []clientv3.OpOption{prefix, clientv3.WithLimit(2)}},
		{"limit that is met", "get/", []clientv3.OpOption{prefix, clientv3.WithLimit(5)}},
		{"limit 0", "get/", []clientv3.OpOption{prefix, clientv3.WithLimit(0)}},
		{"negative limit", "get/", []clientv3.OpOption{prefix, clientv3.WithLimit(-1)}},
		{"revision", "get/", []clientv3.OpOption{prefix, clientv3.WithRev(first + 3)}},
		{"revision before the key", "get/d", []clientv3.OpOption{clientv3.WithRev(first)}},
		{"future revision", "get/a", []clientv3.OpOption{clientv3.WithRev(1 << 40)}},
		{"keys only", "get/", []clientv3.OpOption{prefix, clientv3.WithKeysOnly()}},
		{"count only", "get/", []clientv3.OpOption{prefix, clientv3.WithCountOnly()}},
		{"count only with limit", "get/", []clientv3.OpOption{prefix, clientv3.WithCountOnly(), clientv3.WithLimit(2)}},
		{"serializable", "get/", []clientv3.OpOption{prefix, clientv3.WithSerializable()}},
		{"least mod revision", "get/", []clientv3.OpOption{prefix, clientv3.WithMinModRev(first + 5)}},
		{"most mod revision", "get/", []clientv3.OpOption{prefix, clientv3.WithMaxModRev(first + 5)}},
		{"least create revision", "get/", []clientv3.OpOption{prefix, clientv3.WithMinCreateRev(first + 2)}},
		{"most create revision", "get/", []clientv3.OpOption{prefix, clientv3.WithMaxCreateRev(first + 2)}},
		{"filters with limit", "get/", []clientv3.OpOption{prefix, clientv3.WithMinModRev(first + 4), clientv3.WithLimit(1)}},
		{"first create", "get/", clientv3.WithFirstCreate()},
		{"last create", "get/", clientv3.WithLastCreate()},
		{"first key", "get/", clientv3.WithFirstKey()},
		{"last key", "get/", clientv3.WithLastKey()},
		{"first revision", "get/", clientv3.WithFirstRev()},
		{"last revision", "get/", clientv3.WithLastRev()},
		{"options for other operations", "get/a", []clientv3.OpOption{
			clientv3.WithPrevKV(), clientv3.WithLease(1), clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease(),
			clientv3.WithProgressNotify(), clientv3.WithCreatedNotify(), clientv3.WithFilterPut(),
			clientv3.WithFilterDelete(), clientv3.WithFragment(), clientv3.WithWatchBufLog(),
		}},
	}
	for _, r := range reads {
		log.Step(r.name)(c.Get(ctx, r.key, r.opts...))
	}
	sorts(ctx, c, log)
	log.Step("leader required")(c.Get(clientv3.WithRequireLeader(ctx), "get/a"))
	log.Panic("prefix and from key", func() { _, _ = c.Get(ctx, "get/", prefix, clientv3.WithFromKey()) })

	resp := ok(c.Get(ctx, "get/a"))
	log.Value("as protobuf message", (*pb.RangeResponse)(resp).GetKvs())
}

func sorts(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	for target := clientv3.SortByKey; target <= clientv3.SortByValue+1; target++ {
		for order := clientv3.SortNone; order <= clientv3.SortDescend+1; order++ {
			name := fmt.Sprintf("sort by %d, order %d", target, order)
			log.Step(name)(c.Get(ctx, "get/", clientv3.WithPrefix(), clientv3.WithSort(target, order)))
			log.Step(name + ", limit")(c.Get(ctx, "get/", clientv3.WithPrefix(), clientv3.WithSort(target, order), clientv3.WithLimit(3)))
		}
	}
}

func compacts(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	first := seed(ctx, c, "compact/")
	log.Step("compact")(c.Compact(ctx, first+2))
	log.Step("twice")(c.Compact(ctx, first+2))
	log.Step("before")(c.Compact(ctx, first))
	log.Step("revision 0")(c.Compact(ctx, 0))
	log.Step("future")(c.Compact(ctx, 1<<40))
	log.Step("physical")(c.Compact(ctx, first+4, clientv3.WithCompactPhysical()))
	log.Step("read at a compacted revision")(c.Get(ctx, "compact/", clientv3.WithPrefix(), clientv3.WithRev(first+3)))
	log.Step("read at the compacted revision itself")(c.Get(ctx, "compact/", clientv3.WithPrefix(), clientv3.WithRev(first+4)))
	log.Step("read now")(c.Get(ctx, "compact/", clientv3.WithPrefix()))
	log.Step("txn at a compacted revision")(c.Txn(ctx).Then(clientv3.OpGet("compact/a", clientv3.WithRev(first))).Commit())
	log.Step("stream at a compacted revision")(gather(c.GetStream(ctx, "compact/", clientv3.WithPrefix(), clientv3.WithRev(first))))
}
