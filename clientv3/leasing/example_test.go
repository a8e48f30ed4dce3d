package leasing_test

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/leasing"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// A key that is read often costs one request until another client writes it.
func Example() {
	ctx := context.Background()
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()

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
