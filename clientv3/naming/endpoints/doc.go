// Package endpoints registers the endpoints of a service in etcd, lists them and
// watches them.
//
// The endpoints of the target "billing" are the keys that begin with "billing/".
// What follows the slash only has to be unique; the address is usual. The values
// are JSON and the same that the official client writes.
//
// An endpoint that is registered with a lease goes when the lease ends:
//
//	err := manager.AddEndpoint(ctx, "billing/10.0.0.7:443",
//		endpoints.Endpoint{Addr: "10.0.0.7:443"}, clientv3.WithLease(lease))
package endpoints
