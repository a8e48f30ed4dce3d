package behaviours

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/behaviours/transcript"
)

// limits asks for more than servers and clients take: etcd's limit is 1.5 MiB, the client's 2 MiB.
func limits(ctx context.Context, c *clientv3.Client, log *transcript.Log) {
	beyondServer := strings.Repeat("x", 1700<<10)
	beyondClient := strings.Repeat("x", 3<<20)
	log.Step("put beyond the server's limit")(c.Put(ctx, "large", beyondServer))
	log.Step("put beyond the client's limit")(c.Put(ctx, "large", beyondClient))
	log.Step("txn beyond the server's limit")(c.Txn(ctx).Then(clientv3.OpPut("large", beyondServer)).Commit())
	log.Step("txn beyond the client's limit")(c.Txn(ctx).Then(clientv3.OpPut("large", beyondClient)).Commit())
	log.Step("get beyond the client's limit")(c.Get(ctx, beyondClient))
	log.Step("nothing was written")(c.Get(ctx, "large"))

	const most = 128 // etcd's default
	ops := make([]clientv3.Op, 0, most+1)
	for i := range most + 1 {
		ops = append(ops, clientv3.OpGet(fmt.Sprint(i)))
	}
	log.Step("txn of as many operations as allowed")(c.Txn(ctx).Then(ops[:most]...).Commit())
	log.Step("txn of too many operations")(c.Txn(ctx).Then(ops...).Commit())
}
