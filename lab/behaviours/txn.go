package behaviours

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

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
