// Package prometheus exports a client's events and present state as Prometheus metrics.
//
//	observer, err := prometheus.New(registry, prometheus.Options{Client: "orders"})
//	…
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Observer: observer})
//
// With that the client reports what happens and, at each collection, its present state. Spans are made by the Tracer of
// observe/otel, beside the Observer (observe.Multi); log lines need no wiring.
//
// Several clients can share a registry, with different values of the label "client";
// clients of the same name are added up. The metrics are listed in docs/observing.md of
// the library.
//
// # Cardinality
//
// The label "endpoint" has a value for each endpoint that the client has at the moment:
// the counters of a removed endpoint are dropped, which Prometheus treats as a counter
// reset. Calls to other endpoints, such as a Status call to a member by its address,
// count for "other". The label "method" has the gRPC methods that the program calls, as
// "etcdserverpb.KV/Range"; all other labels have a few fixed values.
package prometheus
