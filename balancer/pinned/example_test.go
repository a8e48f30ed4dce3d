package pinned_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
)

// All calls go to one member, while there is no reason to leave it; the others stay connected.
func Example() {
	cluster, err := etcdtest.New(etcdtest.Config{Members: 3, Client: clientv3.Config{
		ServiceConfig: `{"loadBalancingConfig": [{"quorate_pinned": {"form": "first_of_all"}}]}`,
	}})
	if err != nil {
		panic(err)
	}
	defer cluster.Close()

	_, err = cluster.Client.Get(context.Background(), "k")
	fmt.Println(err)
	// Output: <nil>
}
