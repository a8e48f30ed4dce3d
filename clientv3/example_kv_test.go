package clientv3_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

func ExampleKV() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	for _, key := range []string{"fruit/apple", "fruit/pear", "herb/dill"} {
		if _, err := client.Put(ctx, key, "fresh"); err != nil {
			panic(err)
		}
	}
	resp, err := client.Get(ctx, "fruit/", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	for _, kv := range resp.Kvs {
		fmt.Printf("%s: %s\n", kv.Key, kv.Value)
	}
	deleted, err := client.Delete(ctx, "", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	fmt.Println(deleted.Deleted, "deleted")
	// Output:
	// fruit/apple: fresh
	// fruit/pear: fresh
	// 3 deleted
}

func ExampleKV_do() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	for _, op := range []clientv3.Op{
		clientv3.OpPut("color", "red"),
		clientv3.OpPut("color", "blue", clientv3.WithPrevKV()),
		clientv3.OpGet("color"),
	} {
		resp, err := client.Do(ctx, op)
		if err != nil {
			panic(err)
		}
		switch {
		case op.IsGet():
			fmt.Printf("is %s\n", resp.Get().Kvs[0].Value)
		case op.IsPrevKV():
			fmt.Printf("was %s\n", resp.Put().PrevKv.Value)
		}
	}
	// Output:
	// was red
	// is blue
}

func ExampleTxn() {
	client, stop := clienttest.Example(3)
	defer stop()
	ctx := context.Background()

	// The client that creates the key owns it. The others read the owner.
	claim := func(name string) {
		resp, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision("owner"), "=", 0)).
			Then(clientv3.OpPut("owner", name)).
			Else(clientv3.OpGet("owner")).
			Commit()
		if err != nil {
			panic(err)
		}
		if resp.Succeeded {
			fmt.Printf("%s owns it\n", name)
			return
		}
		owner := resp.Responses[0].GetResponseRange().Kvs[0].Value
		fmt.Printf("%s finds that %s owns it\n", name, owner)
	}
	claim("ann")
	claim("bob")
	// Output:
	// ann owns it
	// bob finds that ann owns it
}

func ExampleKV_getStream() {
	client, stop := clienttest.Example(3)
	defer stop()
	// A reader that stops early ends the context to release the stream.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	for i := range 100 {
		if _, err := client.Put(ctx, fmt.Sprintf("key/%02d", i), "value"); err != nil {
			panic(err)
		}
	}
	stream, err := client.GetStream(ctx, "key/", clientv3.WithPrefix())
	if err != nil {
		panic(err)
	}
	read := 0
	for chunk := range stream {
		if err := chunk.Err(); err != nil {
			panic(err)
		}
		read += len(chunk.Kvs)
		if chunk.Header != nil { // the last one
			fmt.Printf("%d of %d keys, more: %v\n", read, chunk.Count, chunk.More)
		}
	}
	// Output: 100 of 100 keys, more: false
}
