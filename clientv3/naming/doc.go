// Package naming says how services find each other through etcd. It has no code
// of its own:
//
//   - package endpoints registers the endpoints of a service in etcd, lists them
//     and watches them;
//   - package resolver has gRPC channels connect to the endpoints that are
//     registered, and follow every change.
//
// A server registers itself below the name of its service, with a lease, so that
// its endpoint goes when the server does:
//
//	manager, err := endpoints.NewManager(client, "billing")
//	…
//	err = manager.AddEndpoint(ctx, "billing/10.0.0.7:443",
//		endpoints.Endpoint{Addr: "10.0.0.7:443"}, clientv3.WithLease(lease))
//
// Its clients dial the name:
//
//	builder, err := resolver.NewBuilder(client)
//	…
//	conn, err := grpc.NewClient("etcd:///billing", grpc.WithResolvers(builder),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`), …)
//
// Keys and values are those of the official client, so that programs with either of the two find
// each other. The resolver gives weights and metadata to the callers' balancers. Package
// resolver/etcd of this module keeps a server registered even if its lease is lost, and shuts it
// down without a failed call.
package naming
