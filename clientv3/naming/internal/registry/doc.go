// Package registry reads the endpoints that are registered below a target in etcd, and
// follows them. Two packages use it: endpoints, which passes on every change, and resolver.
//
// A [Follower] survives a broken watch: it lists all endpoints again and continues from
// there. It also reports to its [Observer] whether it has contact with etcd. The client's
// watches resume after an outage without reporting it, so the Follower checks the health
// of the client's endpoints, which costs no request.
package registry
