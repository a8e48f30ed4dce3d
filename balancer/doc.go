// Package balancer is a gRPC load-balancing policy that detects which endpoints can serve a
// call, and the strategies that choose among these.
//
// # The policy and its strategies
//
// One policy does what all strategies have in common. It connects and reconnects, tracks the
// calls and streams in flight, probes endpoints under suspicion, ejects those that cannot
// serve and re-admits them once they do. It ranks the endpoints by their state
// ([health.State]) for what a call needs ([Need]). A [Strategy] only chooses among those of
// the best rank. Each strategy has a folder below this one, and is registered with gRPC by
// importing package balancer/policies:
//
//	{"loadBalancingConfig": [{"quorate_p2c": {}}]}
//
// # Outlier detection
//
// A call that is unanswered for longer than calls of its shape usually take, or a stream
// that is silent for longer than it usually is, makes its endpoint Suspected. So does an
// error that hints at trouble; no error ejects an endpoint. Others are preferred from then
// on, and the endpoint is probed over the connections in question, in rounds of 190 ms. An
// endpoint that gives no sign of life for three rounds is Dead: its connections are closed,
// so that all calls and streams on them end at once. One that is alive and completes nothing
// for two rounds is Lagging: reads and streams on it are cut, writes after
// [Options.WriteStallTimeout].
//
// Either verdict needs a witness: another endpoint that completed work meanwhile. When all
// are silent, the network, the servers as a whole or this process is at fault, and to close
// connections would only lose answers. For the same reason timers that fire late are
// ignored, and a large message on its way counts as a sign of life. A single endpoint is
// not probed.
//
// Probes have a budget: 0.25 a second and 2 % of the calls, with a burst of 10.
//
// # Connections
//
// Calls and streams share one connection to each endpoint, until a mebibyte arrives on it
// within a second: streams then get connections of their own. Bulk transfers always do. See
// [ConnClass].
//
// A lost connection is made again at once, or within 200 ms while others serve, and after
// failures with gRPC's backoff (grpc.WithConnectParams). After a minute of failures, while
// others serve, up to 50 s are added to that, until the endpoint is needed. A success ends the backoff of the
// other endpoints, once. While nothing is connected, failed attempts are repeated within 3 s,
// for half a minute.
//
// # Sharing
//
// With [Options.Shared] several ClientConns share what they know of an endpoint, and one of
// them probes it for all. Whether a connection is alive stays each one's own.
package balancer
