package roundrobin_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/resolver/static"
)

// Endpoints take turns; the first one, with twice the weight, gets two calls of three.
func Example() {
	names, err := static.NewBuilder(static.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient("static:///10.0.0.1:8080;weight=2,10.0.0.2:8080",
		grpc.WithResolvers(names),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"quorate_round_robin": {"healthProbe": {}}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.GetState())
	// Output: IDLE
}
