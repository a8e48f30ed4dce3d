package nearest_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
)

// A client in one of three zones reads from the member in its own.
func Example() {
	cluster, err := etcdtest.New(etcdtest.Config{Members: 3, Client: clientv3.Config{
		Balancer: "nearest",
	}})
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	// A linearizable read asks the leader all the same; a serializable one stays in the zone.
	_, err = cluster.Client.Get(context.Background(), "k", clientv3.WithSerializable())
	fmt.Println(err)
	// Output: <nil>
}
