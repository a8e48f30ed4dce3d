package leasing_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/clientv3/leasing"
)

// A key that is read often costs one request until another client writes it.
func Example() {
	cluster, client, stop := clienttest.ExampleCluster(1)
	defer stop()
	ctx := context.Background()

	reader, closeReader, err := leasing.NewKV(client, "_leasing/")
	if err != nil {
		panic(err)
	}
	defer closeReader()
	writer, closeWriter, err := leasing.NewKV(client, "_leasing/")
	if err != nil {
		panic(err)
	}
	defer closeWriter()

	if _, err := writer.Put(ctx, "config", "one"); err != nil {
		panic(err)
	}
	written := cluster.Count("Txn")
	for range 1000 {
		if _, err := reader.Get(ctx, "config"); err != nil {
			panic(err)
		}
	}
	fmt.Println("requests for a thousand reads:", cluster.Count("Txn")-written)

	if _, err := writer.Put(ctx, "config", "two"); err != nil {
		panic(err)
	}
	resp, err := reader.Get(ctx, "config")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", resp.Kvs[0].Value)
	// Output:
	// requests for a thousand reads: 1
	// two
}
