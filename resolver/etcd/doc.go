// Package etcd is service discovery for gRPC through etcd: a resolver for clients, and a
// registration for servers.
//
// A server registers its address, and withdraws it before it stops:
//
//	registrar, err := etcd.Register(ctx, client, etcd.Registration{
//		Service: "billing", Address: "10.0.0.7:443", Weight: 2,
//	})
//	…
//	err = registrar.Shutdown(ctx, server)
//
// Clients dial the name of the service:
//
//	builder, err := etcd.NewBuilder(client, etcd.Config{})
//	…
//	conn, err := grpc.NewClient("etcd:///billing", grpc.WithResolvers(builder), …)
//
// The resolver is that of package clientv3/naming/resolver, which documents targets, keys and
// values, endpoints and faults.
//
// # Stale registrations
//
// A crashed process is removed from the list when its lease expires, at most its TTL plus about
// a second later. Until then callers detect it by its broken connections: use a policy that
// avoids these, such as quorate_round_robin.
package etcd
