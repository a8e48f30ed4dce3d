// Service registers a gRPC server in etcd, and calls it by the name of its service.
//
//	go run ./examples/service --endpoints 127.0.0.1:2379
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/examples/internal/start"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/resolver/etcd"
)

func main() { start.Main(run) }

func run(ctx context.Context, client *clientv3.Client) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(keepalive.Datacenter().ServerOptions()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	registrar, err := etcd.Register(ctx, client, etcd.Registration{Service: "greeter", Address: listener.Addr().String()})
	if err != nil {
		server.Stop()
		return err
	}
	// The registration is withdrawn, callers leave, and the server stops: after 10 s even if one stays.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, registrar.Shutdown(ctx, server))
	}()
	return call(ctx, client)
}

// call is what another process does.
func call(ctx context.Context, client *clientv3.Client) error {
	names, err := etcd.NewBuilder(client, etcd.Config{})
	if err != nil {
		return err
	}
	options, err := quorate.Channel{
		TransportCredentials: insecure.NewCredentials(),
		Keepalive:            keepalive.Datacenter().Pair(),
		Calls:                keepalive.Calls{Repeatable: []string{"/grpc.health.v1.Health/Check"}},
	}.DialOptions()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("etcd:///greeter", append(options, grpc.WithResolvers(names))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	fmt.Println("the service is", resp.GetStatus())
	return nil
}
