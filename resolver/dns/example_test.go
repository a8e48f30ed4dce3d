package dns_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/resolver/dns"
)

// zone replaces a DNS server in the examples.
type zone struct {
	addrs map[string][]netip.Addr
	srvs  map[string][]*net.SRV
}

func (z zone) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addrs, ok := z.addrs[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (z zone) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" {
		name = "_" + service + "._" + proto + "." + name
	}
	if records, ok := z.srvs[name]; ok {
		return name, records, nil
	}
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

type greeter struct {
	testgrpc.UnimplementedTestServiceServer
}

func (greeter) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

// startGreeter runs the server of the example and returns its port.
func startGreeter() (port int, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, greeter{})
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().(*net.TCPAddr).Port, server.Stop
}

// A program has one Builder for all of its channels.
func ExampleNewBuilder() {
	port, stop := startGreeter()
	defer stop()

	builder, err := dns.NewBuilder(dns.Config{
		Interval: 2 * time.Second,
		// Without a Resolver, the system's DNS servers are queried.
		Resolver: zone{addrs: map[string][]netip.Addr{"greeter.test": {netip.MustParseAddr("127.0.0.1")}}},
	})
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient(fmt.Sprintf("dns:///greeter.test:%d", port),
		grpc.WithResolvers(builder),
		grpc.WithNoProxy(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, err = testgrpc.NewTestServiceClient(conn).EmptyCall(context.Background(), &testgrpc.Empty{})
	fmt.Println(err)
	// Output: <nil>
}

// The SRV records of a plain name have a primary, where nothing listens, and a backup.
func ExampleConfig_backups() {
	port, stop := startGreeter()
	defer stop()

	names, err := dns.NewBuilder(dns.Config{
		Backups: true,
		Resolver: zone{
			addrs: map[string][]netip.Addr{
				"primary.test.": {netip.MustParseAddr("127.0.0.9")},
				"backup.test.":  {netip.MustParseAddr("127.0.0.1")},
			},
			srvs: map[string][]*net.SRV{"billing.service.consul": {
				{Target: "primary.test.", Port: 1, Priority: 1},
				{Target: "backup.test.", Port: uint16(port), Priority: 2},
			}},
		},
	})
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient("dns:///billing.service.consul?srv",
		grpc.WithResolvers(names),
		grpc.WithNoProxy(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"quorate_round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, err = testgrpc.NewTestServiceClient(conn).EmptyCall(context.Background(), &testgrpc.Empty{})
	fmt.Println(err)
	// Output: <nil>
}

// Endpoints for clientv3.Config come from the records of a domain.
func ExampleDiscoverEtcd() {
	endpoints, err := dns.DiscoverEtcd(context.Background(), "example.com", dns.EtcdConfig{
		SecureOnly: true,
		Config: dns.Config{Resolver: zone{srvs: map[string][]*net.SRV{
			"_etcd-client-ssl._tcp.example.com": {
				{Target: "etcd1.example.com.", Port: 2379},
				{Target: "etcd0.example.com.", Port: 2379},
			},
		}}},
	})
	if err != nil {
		panic(err)
	}
	for _, e := range endpoints {
		fmt.Println(e)
	}
	// Output:
	// https://etcd0.example.com.:2379
	// https://etcd1.example.com.:2379
}
