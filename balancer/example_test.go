package balancer_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/resolver/static"
)

// first is a program's own strategy. The policy connects, probes and ejects; first chooses among
// the endpoints that can serve.
type first struct{}

func (first) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint { return fit[0] }

// A custom strategy uses the first endpoint that serves, in the resolver's order.
func ExampleRegister() {
	balancer.Register(balancer.Builder{ // in an init function
		Name:  "first",
		Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return first{} },
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, grpchealth.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	names, err := static.NewBuilder(static.Config{})
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient("static:///"+listener.Addr().String(),
		grpc.WithResolvers(names),
		grpc.WithTransportCredentials(balancer.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"quorate_first": {"healthProbe": {}}}]}`))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	resp, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(resp.GetStatus(), err)
	// Output: SERVING <nil>
}
