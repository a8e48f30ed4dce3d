// Package observe is how a program sees what its client sees: where calls go, what is
// held of each endpoint, what is repeated, moved or lost.
//
// An [Observer] is told of single events, as they happen. Whoever writes one embeds
// [None] and implements what is of interest:
//
//	type moves struct {
//		observe.None
//		n atomic.Int64
//	}
//
//	func (m *moves) FailedOver(observe.Failover) { m.n.Add(1) }
//
// It reaches the client in its configuration, several of them by [Multi]. Modules of
// their own turn the events into metrics: observe/prometheus and observe/otel. The
// lines that a client logs when an outage starts and ends come from them too, see
// package observe/outage.
//
// # What events hold
//
// Endpoints are named as the client was given them, without the passwords that URLs can
// hold. Methods are full names as gRPC has them, "/etcdserverpb.KV/Range". No event holds
// a key, a value, a token or any other part of a request or a response. Errors are those
// of servers, of gRPC and of this library.
package observe
