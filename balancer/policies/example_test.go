package policies_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
)

// Any gRPC client can use the policies. The credentials let the policy close the connection of a
// server that does not answer; the health probe asks the server whether it serves.
func Example() {
	conn, err := grpc.NewClient("dns:///greeter.example.com:443",
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{
			"loadBalancingConfig": [{"quorate_p2c": {"healthProbe": {"serviceName": "helloworld.Greeter"}}}]
		}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.GetState())
	// Output: IDLE
}
