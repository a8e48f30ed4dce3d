package mockserver_test

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/mockserver"
)

// A client goes on with the servers that are left.
func Example() {
	servers, err := mockserver.StartMockServers(3)
	if err != nil {
		panic(err)
	}
	defer servers.Stop()
	var endpoints []string
	for _, server := range servers.Servers {
		endpoints = append(endpoints, server.Address)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	for i := range servers.Servers[1:] {
		_, err := client.Get(context.Background(), "k")
		fmt.Println("error:", err)
		servers.StopAt(i)
	}
	_, err = client.Get(context.Background(), "k")
	fmt.Println("with one server, error:", err)
	// Output:
	// error: <nil>
	// error: <nil>
	// with one server, error: <nil>
}
