// Package resolver has gRPC channels connect to the endpoints that are registered
// in etcd with package endpoints:
//
//	builder, err := resolver.NewBuilder(client)
//	…
//	conn, err := grpc.NewClient("etcd:///billing", grpc.WithResolvers(builder), …)
//
// # Targets
//
// The scheme is "etcd", and the name of the service is the path without its first
// slash: "etcd:///billing", "etcd:billing" and "etcd://anything/billing" all mean
// "billing", and "etcd:///eu/billing" means "eu/billing". An authority and a query
// are ignored: it is the client given to NewBuilder that says which cluster is
// asked.
//
// # Addresses
//
// Each key is one resolver.Endpoint with one address. Every channel has an order of
// its own, which it keeps, so that channels of which each uses the first address, as
// gRPC's do by default, are spread over all. Values that cannot be understood, or have
// no address, are left out, with a warning in the client's log. Metadata is not passed
// on.
//
// # Faults
//
// The channel is told of every change within milliseconds. While etcd cannot be
// reached it keeps the endpoints that it has, and when a watch is broken, by a
// compaction for instance, the endpoints are read anew. Dialling does not wait for
// etcd. If the endpoints cannot be read, or there are none, the channel is told,
// so that its calls fail with the reason, unless they wait for ready.
package resolver
