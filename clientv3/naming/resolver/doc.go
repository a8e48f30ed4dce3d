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
// # What it is
//
// This is package resolver/etcd under the official client's name, and everything said there
// of endpoints, metadata and faults holds here. It differs in one thing: every channel has an
// order of endpoints of its own, which it keeps until it is idle, so that channels of which
// each uses the first address, as gRPC's do by default, are spread over all.
//
// Programs that come from the official client may notice that Build waits for nothing, and
// that calls made while nothing is registered fail at once: there they wait for the first
// endpoint until their deadline, as they do here with grpc.WaitForReady.
package resolver
