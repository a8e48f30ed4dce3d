package clientv3_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
)

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
