// Package health holds the health of a client's endpoints: a state for each, with the
// evidence that led to it. It does no I/O. Package balancer notes evidence in a [Table]
// and reads the states when it picks an endpoint.
//
// # Evidence and states
//
// Evidence is what a client observes: a connection was lost, a call was answered, a stream
// is silent, a probe was not answered. [Record.Next], a pure function, derives the state
// from it. It follows three principles.
//
// Silence and errors are suspicions. They make an endpoint Suspected: it is probed, and
// others are preferred. Stalled and Unresponsive are verdicts: package balancer reaches them
// by comparing an endpoint with others.
//
// Being alive is not serving. A member that is partitioned from its peers still answers
// liveness checks. Answered clears only Unknown endpoints; Served clears endpoints in
// every state.
//
// A fault ends with evidence of the opposite, not after a time. A new connection is no
// such evidence. Only writes, which cannot be repeated, prefer other endpoints for a time after
// a verdict: see [Status].WritesFrom.
//
// The full table, where a dot means no change:
//
//	            Connected  Disconnected  ConnectFailed  Answered  Served    Suspicious  Late  Stalled  Unresponsive  Degrading  Restricting  Refusing    Removed
//	Unknown     ·          ·             Dead           Serving   Serving   Suspected   Slow  Lagging  Dead          Degraded   Restricted   NotServing  Draining
//	Serving     ·          ·             Dead           ·         ·         Suspected   Slow  Lagging  Dead          Degraded   Restricted   NotServing  Draining
//	Suspected   ·          Unknown       Dead           ·         Serving   ·           Slow  Lagging  Dead          Degraded   Restricted   NotServing  Draining
//	Slow        ·          ·             Dead           ·         Serving³  ·           ·     Lagging  Dead          Degraded   Restricted   NotServing  Draining
//	Lagging     ·          ·             Dead           ·         Serving   ·           Slow  ·        Dead          Degraded   Restricted   NotServing  Draining
//	Degraded    ·          ·             Dead           ·         Serving   ·           Slow  ·        Dead          ·          Restricted   NotServing  Draining
//	Restricted  ·          ·             Dead           ·         Serving   ·           Slow  ·        Dead          ·          ·            NotServing  Draining
//	NotServing  ·          ·             Dead           ·         Serving   ·           Slow  ·        Dead          Degraded   Restricted   ·           Draining
//	Dead        ·          ·             ·              ·         Serving   ·           Slow  Lagging  ·             Degraded   Restricted   NotServing  Draining
//	Draining    ·          ·             ·              ·         ·         ·           ·     ·        ·             ·          ·            ·           ·
//
//	³  at the third in a row
//
// Some transitions need an explanation:
//
//   - A Suspected endpoint whose connection is lost is Unknown: the loss explains the
//     silence. If the endpoint is gone, the next connection attempt fails.
//   - An endpoint that is Suspected because many of its calls failed also becomes Serving at the
//     third in a row. After relapses it takes up to 24 for both states.
//   - An endpoint that refuses connections is Dead, and stays Dead once it accepts them: a
//     member that was just started accepts connections long before it serves.
//   - A Restricted endpoint that is Degrading stays Restricted: it serves the same calls.
//   - A Dead endpoint that is alive but stalled becomes Lagging.
//
// # Silence
//
// [Latency] learns how long calls of one shape take, and [Pace] how long a stream pauses;
// both set how much silence is suspicious. A [Prober] determines the cause of the silence;
// package etcdprobe has probers for etcd, grpcprobe one for any service with
// grpc.health.v1.
//
// # Sharing
//
// Clients of a process that share a [Table] share an endpoint's state, latency and latest
// sign of life. One of them probes it for all. The liveness of connections is not shared:
// each client checks its own.
package health
