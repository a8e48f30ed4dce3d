// Package endpoints registers the endpoints of a service in etcd, lists them and
// watches them.
//
// The endpoints of the target "billing" are the keys that begin with "billing/". The part after
// the slash must be unique; the address is usual. The values are JSON, as the official client
// writes them.
//
// An endpoint that is registered with a lease is deleted when the lease ends:
//
//	err := manager.AddEndpoint(ctx, "billing/10.0.0.7:443",
//		endpoints.Endpoint{Addr: "10.0.0.7:443"}, clientv3.WithLease(lease))
package endpoints
