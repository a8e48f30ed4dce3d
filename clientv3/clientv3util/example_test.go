package clientv3util_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientv3util"
	"github.com/quorate/quorate/etcdtest"
)

// newExampleClient returns a client of an etcd that lives in memory. A program passes
// its endpoints to clientv3.New and nothing else.
func newExampleClient() (*clientv3.Client, func()) {
	etcd, err := etcdtest.New(etcdtest.Config{})
	if err != nil {
		panic(err)
	}
	return etcd.Client, etcd.Close
}

// A key is created, unless another client was faster.
func ExampleKeyMissing() {
	client, stop := newExampleClient()
	defer stop()

	for _, name := range []string{"ann", "bob"} {
		resp, err := client.Txn(context.Background()).
			If(clientv3util.KeyMissing("owner")).
			Then(clientv3.OpPut("owner", name)).
			Commit()
		if err != nil {
			panic(err)
		}
		fmt.Println(name, "created it:", resp.Succeeded)
	}
	// Output:
	// ann created it: true
	// bob created it: false
}

// A key is changed, but not created.
func ExampleKeyExists() {
	client, stop := newExampleClient()
	defer stop()
	ctx := context.Background()

	update := func(value string) {
		resp, err := client.Txn(ctx).
			If(clientv3util.KeyExists("color")).
			Then(clientv3.OpPut("color", value)).
			Commit()
		if err != nil {
			panic(err)
		}
		fmt.Println("changed to", value+":", resp.Succeeded)
	}
	update("red")
	if _, err := client.Put(ctx, "color", "blue"); err != nil {
		panic(err)
	}
	update("red")
	// Output:
	// changed to red: false
	// changed to red: true
}
