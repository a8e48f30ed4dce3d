package pinned_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// All calls go to one member, while there is no reason to leave it; the others stay connected.
func Example() {
	cluster, err := fakeetcd.Start(3)
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(),
		ServiceConfig: `{"loadBalancingConfig": [{"quorate_pinned": {"form": "first_of_all"}}]}`,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	_, err = client.Get(context.Background(), "k")
	fmt.Println(err)
	// Output: <nil>
}
