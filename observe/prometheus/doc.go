// Package prometheus turns what a client does and finds into Prometheus metrics.
//
//	observer, err := prometheus.New(registry, prometheus.Options{Client: "orders"})
//	…
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Observer: observer})
//
// Several clients share a registry, and are told apart by the label "client"; those that
// have the same name are added up. The metrics are listed in docs/observing.md of the
// library.
//
// # Cardinality
//
// The label "endpoint" has a value for each endpoint that the client has at the moment:
// what was counted for one that is removed is dropped with it, which Prometheus takes for
// a restart of the counter. What goes to an endpoint that is none of the client's, such
// as a Status call to a member by its address, counts for "other". The label "method"
// has the gRPC methods that the program calls, as "etcdserverpb.KV/Range"; all other
// labels have a few fixed values.
package prometheus
