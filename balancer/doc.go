// Package balancer holds a gRPC load-balancing policy that notices which endpoints can
// serve a call, and the strategies that choose among these.
//
// # The policy and its strategies
//
// One policy does what all have in common: it connects and reconnects, watches the calls
// and streams on each connection for silence, probes what is suspected, stops using
// endpoints that cannot serve, and uses them again once a probe says so. A [Strategy]
// only chooses among the endpoints that are fit. Each has a folder below this one, and is
// registered with gRPC by importing package balancer/policies:
//
//	{"loadBalancingConfig": [{"quorate_p2c": {}}]}
//
// # How a fault is noticed
//
// The evidence is ordered by what it costs. A broken connection, and errors by which a
// server speaks for itself, cost nothing. Silence costs nothing while it is usual: a call
// that is older than those of its class usually get, or a stream that is quieter than it
// usually is, makes its endpoint a suspect. Others are preferred from then on, and the
// suspect is probed at once, over the connections that are in question. Two rounds of
// probes without any sign of life, and the endpoint is dead: its connections are closed,
// not gracefully, so that every call and stream on them ends at once. A server that is
// alive, but does not do its work while others do, is not used either, and its calls and
// streams end in the same way.
//
// No endpoint is ejected unless another one has just shown that it serves. When all are
// silent it is the network, the cluster or this very process that is in trouble, and to
// close connections would only take answers away that are on their way.
//
// # How connections come back
//
// A connection that is lost is made again at once, and after failures with gRPC's backoff
// (grpc.WithConnectParams). An endpoint that can be connected to again cuts the backoff of the
// others short, once. And while nothing is connected at all there are two attempts a second
// to each endpoint, twenty in all at most, for half a minute.
package balancer
