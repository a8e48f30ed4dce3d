// Package balancer is a gRPC load-balancing policy that detects which endpoints can serve a
// call, and the strategies that choose among these.
//
// # The policy and its strategies
//
// All strategies share one policy. It connects and reconnects, tracks in-flight calls and
// streams, probes suspected endpoints, ejects endpoints that cannot serve and re-admits them
// once they can. It ranks endpoints by their state ([health.State]) and the call's [Need]. A
// [Strategy] only chooses among the endpoints of the best rank. Each strategy is a
// subpackage; importing package balancer/policies registers all of them with gRPC:
//
//	{"loadBalancingConfig": [{"quorate_p2c": {}}]}
//
// # Outlier detection
//
// An endpoint becomes Suspected when a call takes longer than usual for its shape, when a
// stream is silent for longer than usual, or when an error suggests a fault. No single error ejects
// an endpoint. The policy then prefers other endpoints and probes the suspect over the
// affected connections, in rounds of 190 ms. An endpoint that gives no sign of life for
// three rounds is Dead: reads and streams on it end at once, and so do its connections; one on
// which writes wait is closed an eighth of [Options.WriteStallTimeout] later. An endpoint that is
// alive but completes nothing for two rounds is Lagging: reads and streams on it end at once,
// writes after that timeout.
//
// Both verdicts need a witness: another endpoint that completed work meanwhile. When all
// endpoints are silent, the network, the whole cluster or this process is at fault, and
// closing connections would only lose responses. For the same reason timers that fire late
// are ignored, and a large message in transit counts as a sign of life. A single endpoint
// gets liveness checks only.
//
// Unless [Options.Classify] is given, an endpoint is also ejected when many of its calls fail or are
// late, and few do elsewhere: it is Suspected or Slow, and calls test it from time to time until several
// in a row succeed. "maxEjectionPercent" bounds how many. docs/toolkit.md has the figures.
//
// Each client has a probe budget: 0.25 probes per second plus 2 % of its calls, with a
// burst of 10.
//
// # Health checks of gRPC
//
// A service config with "healthCheckConfig" counts as below gRPC's round_robin, if the program
// imports google.golang.org/grpc/health: an endpoint gets calls while it says SERVING, or if it has
// no health service. What is under way on one that says NOT_SERVING goes on.
//
// # Connections
//
// Calls and streams share one connection to each endpoint. When more than a mebibyte
// arrives on it within 8 s while a stream is read, streams get a connection of their own. Bulk transfers
// always have one. See [ConnClass]. Where an endpoint has several addresses, the next one is tried beside
// an attempt that takes more than 250 ms, and what connects first is used.
//
// A lost connection is reestablished at once, or within 200 ms while other endpoints serve. A failed
// attempt is repeated after about a second; the pauses grow to a minute while other endpoints
// serve, and end when the endpoint is needed. While nothing is connected, the endpoints are tried
// one at a time: the pauses are shorter the more there are, and grow to 15 s. A successful
// connection ends the pauses of all; where connections do not last, one that lasts does. gRPC's
// backoff (grpc.WithConnectParams) is a lower bound of the pauses; give grpc.NewClient
// [ConnectParams].
//
// # Sharing
//
// With [Options.Shared] several ClientConns share the health of an endpoint, and one of
// them probes it for all. Each ClientConn checks the liveness of its own connections.
package balancer
