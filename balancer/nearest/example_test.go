package nearest_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// A client in one of three zones reads from the member in its own.
func Example() {
	cluster, err := fakeetcd.Start(3)
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(),
		Balancer: "nearest",
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	// A linearizable read asks the leader all the same; a serializable one stays in the zone.
	_, err = client.Get(context.Background(), "k", clientv3.WithSerializable())
	fmt.Println(err)
	// Output: <nil>
}
