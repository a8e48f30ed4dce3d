package keepalive_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/keepalive"
)

// Both ends take their options from one preset, and from one Sizes. The client also
// says which calls may be repeated when the server restarts.
func Example() {
	ends, sizes := keepalive.Datacenter(), keepalive.Sizes{MaxResponse: 16 << 20}

	sizeOptions, err := sizes.ServerOptions()
	must(err)
	server := grpc.NewServer(append(ends.ServerOptions(), sizeOptions...)...)
	testgrpc.RegisterTestServiceServer(server, service{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go server.Serve(listener)
	defer server.Stop()

	sizeDialOptions, err := sizes.DialOptions()
	must(err)
	callOptions, err := keepalive.Calls{
		Repeatable: []string{testgrpc.TestService_EmptyCall_FullMethodName},
		Once:       []string{testgrpc.TestService_UnaryCall_FullMethodName},
	}.DialOptions()
	must(err)
	dialOptions := append(append(ends.DialOptions(), sizeDialOptions...), callOptions...)
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
		append(dialOptions, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must(err)
	defer conn.Close()

	_, err = testgrpc.NewTestServiceClient(conn).EmptyCall(context.Background(), &testgrpc.Empty{})
	fmt.Println(err)
	fmt.Println(ends.Pair().Client.Time, ends.Pair().Server.MinTime)
	// Output:
	// <nil>
	// 10s 5s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// What many write into a client does not go with a server without configuration.
func ExampleCheck() {
	client := keepalive.Client{Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true}
	err := keepalive.Check(client, keepalive.Server{})
	if tooMany, ok := errors.AsType[*keepalive.TooManyPingsError](err); ok {
		fmt.Printf("ping %d after %v\n", tooMany.Pings, tooMany.After)
	}
	fmt.Println(err)
	// Output:
	// ping 4 after 40s
	// keepalive: too_many_pings: while no call is under way the client pings every 10s (Client.Time) and the server allows a ping every 2h0m0s (because Server.PermitWithoutStream is false): it ends the connection at the 4th ping in a row, 40s after the last traffic; set Client.PermitWithoutStream to false and Client.Time to at least 5m0s, or Server.PermitWithoutStream to true and Server.MinTime to at most 10s
}

// A preset is changed, and checked again.
func ExamplePair_Validate() {
	pair := keepalive.LoadBalancer().Pair()
	pair.LongestCall = 30 * time.Second
	pair.Server.MaxConnectionAgeGrace = 10 * time.Second
	fmt.Println(pair.Validate())
	// Output:
	// keepalive: Server.MaxConnectionAgeGrace: 10s; a call of 30s (LongestCall) that begins while the GOAWAY is on its way would be cut: set it to at least 31s, or to 0 for no limit
}

// Settings for clientv3 are checked against etcd's own. 2 s, as for its discovery, is
// not what gRPC would do.
func ExampleEtcd() {
	pair := keepalive.Etcd().Pair()
	fmt.Println(pair.Validate())
	pair.Client.Time = 2 * time.Second
	fmt.Println(pair.Validate())
	// Output:
	// <nil>
	// keepalive: Client.Time: 2s; grpc-go raises it to 10s: write that, or more
}

// The service config can also be given to a resolver, or to another language.
func ExampleCalls() {
	config, err := keepalive.Calls{Once: []string{"/shop.Orders/Place"}, Timeout: 5 * time.Second}.ServiceConfig()
	fmt.Println(config, err)
	// Output:
	// {"methodConfig":[{"name":[{"service":"shop.Orders","method":"Place"}],"waitForReady":true,"timeout":"5s"}]} <nil>
}
