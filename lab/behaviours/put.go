package behaviours

import (
	"context"

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
