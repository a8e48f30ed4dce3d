package clientv3util_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/clientv3util"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// A key is created, unless another client was faster.
func ExampleKeyMissing() {
	client, stop := clienttest.Example(1)
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
	client, stop := clienttest.Example(1)
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
