package behaviours

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

func txns(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	grant := ok(c.Grant(ctx, 3600))
	for range 2 {
		ok(c.Put(ctx, "txn/a", "m", clientv3.WithLease(grant.ID)))
	}
	kv := ok(c.Get(ctx, "txn/a"))
	a := kv.Kvs[0]

	targets := []struct {
		name              string
		cmp               clientv3.Cmp
		less, equal, more any
	}{
		{"value", clientv3.Value("txn/a"), "l", "m", "n"},
		{"version", clientv3.Version("txn/a"), 1, 2, 3},
		{"create revision", clientv3.CreateRevision("txn/a"), a.CreateRevision - 1, a.CreateRevision, a.CreateRevision + 1},
		{"mod revision", clientv3.ModRevision("txn/a"), a.ModRevision - 1, a.ModRevision, a.ModRevision + 1},
		{"lease", clientv3.LeaseValue("txn/a"), grant.ID - 1, grant.ID, grant.ID + 1},
		{"version of a missing key", clientv3.Version("txn/none"), -1, 0, 1},
		{"create revision of a missing key", clientv3.CreateRevision("txn/none"), int64(-1), int64(0), int64(1)},
		{"value of a missing key", clientv3.Value("txn/none"), "", "", "a"},
		{"lease of a missing key", clientv3.LeaseValue("txn/none"), -1, clientv3.NoLease, int64(1)},
		{"prefix", clientv3.Version("txn/").WithPrefix(), 1, 2, 3},
		{"range", clientv3.Version("txn/a").WithRange("txn/b"), 1, 2, 3},
	}
	for _, t := range targets {
		for _, result := range []string{"=", "!=", "<", ">"} {
			for _, operand := range []any{t.less, t.equal, t.more} {
				resp := ok(c.Txn(ctx).If(clientv3.Compare(t.cmp, result, operand)).Commit())
				log.Value(fmt.Sprintf("%s %s", t.name, result), resp.Succeeded)
			}
		}
	}
	txnBranches(ctx, c, log)
	log.Step("revoke")(c.Revoke(ctx, grant.ID))
}

func txnBranches(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
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
	ok(c.Put(ctx, "txn/d", "1"))
	put, get := clientv3.OpPut("txn/e", "1"), clientv3.OpGet("txn/e")
	log.Step("duplicate key")(c.Txn(ctx).Then(put, put).Commit())
	log.Step("duplicate key, nested")(c.Txn(ctx).Then(put, clientv3.OpTxn(nil, []clientv3.Op{put}, nil)).Commit())
	log.Step("put and delete of one key")(c.Txn(ctx).Then(put, clientv3.OpDelete("txn/", clientv3.WithPrefix())).Commit())
	log.Step("empty key")(c.Txn(ctx).Then(clientv3.OpPut("", "1")).Commit())
	log.Step("empty key in the other branch")(c.Txn(ctx).Then(get).Else(clientv3.OpPut("", "1")).Commit())
	log.Step("empty key compared")(c.Txn(ctx).If(clientv3.Compare(clientv3.Version(""), "=", 0)).Then(get).Commit())
	log.Step("future revision")(c.Txn(ctx).Then(clientv3.OpGet("txn/e", clientv3.WithRev(1<<40))).Commit())
	log.Step("unknown lease")(c.Txn(ctx).Then(clientv3.OpPut("txn/e", "1", clientv3.WithLease(12345))).Commit())
	log.Step("ignore value of a missing key")(c.Txn(ctx).Then(clientv3.OpPut("txn/e", "", clientv3.WithIgnoreValue())).Commit())
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
