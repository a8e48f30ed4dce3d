package clientv3_test

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
)

// The state of the endpoints, without a request.
func ExampleClient_EndpointStatus() {
	cluster, err := fakeetcd.Start(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions(), Logger: zap.NewNop(),
		Balancer: "p2c",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for range 3 { // one that is slow shows less
		if _, err := client.Get(context.Background(), "k"); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, s := range client.EndpointStatus() {
		fmt.Println(s.State, s.Evidence.Kind, s.LastErr)
	}
	// Output: serving served <nil>
}
