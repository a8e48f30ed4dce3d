// Package observe defines the events of a client: picks, changes of an endpoint's state,
// retries, failovers, resumed watches and lost leases.
//
// An [Observer] receives single events as they happen. Implementations embed [None] and
// override the methods that they need:
//
//	type moves struct {
//		observe.None
//		n atomic.Int64
//	}
//
//	func (m *moves) FailedOver(observe.Failover) { m.n.Add(1) }
//
// Set it in the client's configuration; [Multi] combines several. The modules
// observe/prometheus and observe/otel turn events into metrics. Package observe/outage
// logs the beginning and the end of an outage.
//
// # What events hold
//
// Endpoints have the names of the client's configuration, without the passwords that URLs
// can hold. Methods are gRPC's full names, "/etcdserverpb.KV/Range". No event holds a
// key, a value, a token or any other part of a request or a response. Errors are those of
// servers, of gRPC and of this library.
package observe
