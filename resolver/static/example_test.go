package static_test

import (
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/resolver/static"
)

func Example() {
	b, err := static.NewBuilder(static.Config{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("static:///10.0.0.1:8080,10.0.0.2:8080",
		grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"quorate_p2c": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Println(conn.GetState())
	// Output: IDLE
}
