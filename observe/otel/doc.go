// Package otel exports a client's events and present state as OpenTelemetry metrics, and its calls as spans.
//
//	observer, err := otel.New(meterProvider, otel.Options{Client: "orders", TracerProvider: tracerProvider})
//	…
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Observer: observer})
//
// Several clients share a provider, and differ in the attribute "quorate.client.name". Give each client its own: not
// every exporter adds up the endpoint states of clients with the same name. The metrics are listed in docs/observing.md
// of the library.
//
// # Cardinality
//
// The attribute "quorate.endpoint.name" has a value for each endpoint that the client has
// had. States are reported for those that it has now; OpenTelemetry has no way to drop a
// counter, so programs whose endpoints come and go by the thousands should drop the
// attribute with a view. Calls to endpoints that are not the client's, such as a Status
// call to a member by its address, count for "other".
package otel
