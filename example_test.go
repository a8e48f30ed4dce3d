package quorate_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/pool/grpcpool"
	"github.com/quorate/quorate/resolver/dns"
)

// A client of any gRPC service.
func ExampleChannel() {
	creds := insecure.NewCredentials()
	dial := func() error {
		options, err := quorate.Channel{
			TransportCredentials: creds,
			Calls: keepalive.Calls{
				Repeatable: []string{"/billing.Invoices/Get"},
				Once:       []string{"/billing.Invoices/Pay"},
			},
		}.DialOptions()
		if err != nil {
			return err
		}
		conn, err := grpc.NewClient("dns:///billing.shop.svc.cluster.local:8080", options...)
		if err != nil {
			return err
		}
		defer conn.Close()
		fmt.Println(conn.GetState())
		return nil
	}
	if err := dial(); err != nil {
		fmt.Println(err)
	}
	// Output: IDLE
}

// The same over a pool of connections, which takes the credentials itself, with this
// module's resolver and keepalive for both ends.
func ExampleChannel_pool() {
	creds := insecure.NewCredentials()
	dial := func() error {
		names, err := dns.NewBuilder(dns.Config{}) // one for the process: channels share lookups
		if err != nil {
			return err
		}
		options, err := quorate.Channel{Keepalive: keepalive.Datacenter().Pair()}.DialOptions()
		if err != nil {
			return err
		}
		conn, err := grpcpool.NewClient("dns:///billing.shop.svc.cluster.local:8080",
			grpcpool.Config{TransportCredentials: creds}, append(options, grpc.WithResolvers(names))...)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	fmt.Println(dial())
	// Output: <nil>
}

// Frameworks that call grpc.NewClient themselves find a resolver that is registered for its
// scheme, in place of gRPC's own.
func ExampleChannel_register() {
	names, err := dns.NewBuilder(dns.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	before := resolver.Get("dns")
	resolver.Register(names) // at the start of the program: it is for all channels
	resolver.Register(before)
}
