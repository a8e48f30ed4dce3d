package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/resolver/kubernetes"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

// pod runs a gRPC server, and returns its EndpointSlice.
func pod() (slice *discoveryv1.EndpointSlice, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, greeter{})
	go func() {
		if err := server.Serve(listener); err != nil {
			fmt.Println(err)
		}
	}()
	name, port := "grpc", int32(listener.Addr().(*net.TCPAddr).Port)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "users-1", Labels: map[string]string{discoveryv1.LabelServiceName: "users"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}},
	}, server.Stop
}

type greeter struct {
	testgrpc.UnimplementedTestServiceServer
}

func (greeter) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return new(testgrpc.Empty), nil
}

// A channel balances over the pods of the service "users" in the namespace "shop". In a pod,
// Config{} finds the API server; here it is a fake.
func Example() {
	api, err := fakeapiserver.Start()
	if err != nil {
		panic(err)
	}
	defer api.Close()
	slice, stop := pod()
	defer stop()
	if _, err := api.Create(slice); err != nil {
		panic(err)
	}

	b, err := kubernetes.NewBuilder(kubernetes.Config{REST: api.RESTConfig()})
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient("kubernetes:///users.shop:grpc",
		grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = testgrpc.NewTestServiceClient(conn).EmptyCall(ctx, new(testgrpc.Empty))
	fmt.Println(status.Code(err), "for", conn.CanonicalTarget())
	// Output: OK for kubernetes:///users.shop:grpc
}

// In a pod, a program whose framework opens the channels registers the resolver once.
func ExampleRegisterInCluster() {
	if err := kubernetes.RegisterInCluster(); err != nil {
		fmt.Println("not in a cluster, and no kubeconfig")
	}
}
