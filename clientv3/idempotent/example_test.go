package idempotent_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/idempotent"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// A counter is incremented, and the connection breaks before the answer. The client sends the transaction again, and it is
// executed once.
func ExampleNew() {
	cluster, client, stop := clienttest.ExampleCluster(3) // a program has a real one
	defer stop()
	ctx := context.Background()
	kv, err := idempotent.New(ctx, client, idempotent.Config{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = kv.Close() }()
	client.KV = kv

	cluster.Once("Txn", func(c *fakeetcd.Call) {
		_, _ = c.Execute()
		c.BreakConn()
	})
	resp, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version("counter"), "=", 0)).
		Then(clientv3.OpPut("counter", "1")).
		Commit()
	if err != nil {
		panic(err)
	}
	fmt.Println("succeeded:", resp.Succeeded, "executed:", cluster.PutCount("counter"))
	// Output: succeeded: true executed: 1
}
