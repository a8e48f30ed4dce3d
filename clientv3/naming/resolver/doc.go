// Package resolver is a gRPC resolver for endpoints that are registered in etcd with package
// endpoints:
//
//	builder, err := resolver.NewBuilder(client)
//	…
//	conn, err := grpc.NewClient("etcd:///billing", grpc.WithResolvers(builder), …)
//
// # Targets
//
// The scheme is "etcd", and the name of the service is the path without its first slash:
// "etcd:///billing", "etcd:billing" and "etcd://anything/billing" all mean "billing", and
// "etcd:///eu/billing" means "eu/billing". An authority and a query are ignored: the client given
// to NewBuilder determines the cluster.
//
// # Relation to package resolver/etcd
//
// This is package resolver/etcd under the official client's name; endpoints, metadata and faults
// are documented there. It differs in the order of endpoints: every channel has a random order,
// which it keeps until it is idle, so that channels which use the first address, as gRPC's do by
// default, are spread over all servers. It does not delay mass removals.
//
// Unlike the official client's, Build does not block, and calls made while nothing is registered
// fail at once: there they wait for the first endpoint until their deadline, as they do here with
// grpc.WaitForReady.
package resolver
