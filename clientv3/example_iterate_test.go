package clientv3_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/internal/clienttest"
	"github.com/quorate/quorate/etcdtest"
)

// All keys of a prefix, at one revision, however many there are.
func ExampleRange() {
	client, stop := clienttest.Example(3)
	defer stop()
	if err := configs(context.Background(), client); err != nil {
		panic(err)
	}
	// Output:
	// configs/db = blue
	// configs/web = green
}

func configs(ctx context.Context, client *clientv3.Client) error {
	for key, value := range map[string]string{"configs/web": "green", "configs/db": "blue"} {
		if _, err := client.Put(ctx, key, value); err != nil {
			return err
		}
	}
	for kv, err := range clientv3.Range(ctx, client, "configs/", clientv3.WithPrefix()) {
		if err != nil {
			return err // what was read is not all
		}
		fmt.Printf("%s = %s\n", kv.Key, kv.Value)
	}
	return nil
}

// The state of the endpoints, without a request.
func ExampleClient_EndpointStatus() {
	cluster, err := etcdtest.New(etcdtest.Config{Client: clientv3.Config{Balancer: "p2c"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	for range 3 { // a slow one does not count as served
		if _, err := cluster.Client.Get(context.Background(), "k"); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, s := range cluster.Client.EndpointStatus() {
		fmt.Println(s.State, s.Evidence.Kind, s.LastErr)
	}
	// Output: serving served <nil>
}
