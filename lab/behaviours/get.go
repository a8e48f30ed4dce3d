package behaviours

import (
	"context"
	"fmt"
	"strings"

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
