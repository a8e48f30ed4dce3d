package front_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/xds"

	"github.com/quorate/quorate/balancer"
	_ "github.com/quorate/quorate/balancer/policies" // without it the client takes the next policy of the list
)

// The control plane selects the policy. It needs a bootstrap file, which the environment names.
func Example_xds() {
	creds := insecure.NewCredentials()
	dial := func() error {
		conn, err := grpc.NewClient("xds:///greeter", grpc.WithTransportCredentials(balancer.Credentials(creds))) // of xDS, or others
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := dial(); err != nil {
		fmt.Println("no control plane:", err)
	}
}
