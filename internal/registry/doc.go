// Package registry reads the endpoints that are registered below a target in etcd, and
// follows them. Three packages stand on it: clientv3/naming/endpoints, which hands on every
// change, and the gRPC resolvers resolver/etcd and clientv3/naming/resolver.
//
// A [Follower] outlives whatever breaks a watch: it reads all endpoints again and goes on
// from there. What it tells its [Observer] besides changes is whether it is in touch with
// etcd. The client's watches go on by themselves after an outage and say nothing of it, so
// the Follower looks at what the client knows of its endpoints, which costs no request.
package registry
