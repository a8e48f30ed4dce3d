package p2c_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
)

// A gRPC channel whose calls avoid slow servers; quorate.Channel makes such options, and more.
func Example() {
	conn, err := grpc.NewClient("dns:///billing.shop.svc.cluster.local:8080",
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"quorate_p2c": {"healthProbe": {}}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.GetState())
	// Output: IDLE
}
