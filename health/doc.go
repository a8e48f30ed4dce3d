// Package health holds what clients know of their endpoints: a state for each, with the
// evidence that led to it. It does no I/O. Whoever uses connections notes evidence in a
// [Table]; whoever chooses among endpoints reads it.
//
// # Evidence and states
//
// Evidence is what can be seen from outside: a connection was lost, a call was answered, a
// stream is silent, a probe was not answered. [Record.Next] makes a state of it, and is a
// pure function. Three principles decide it.
//
// Silence and errors are suspicions. They make an endpoint Suspected: others are preferred,
// and it is probed. Stalled and Unresponsive are verdicts, which package balancer reaches by
// comparing an endpoint with others.
//
// To be alive is not to serve. A member that is cut off from its peers answers everything
// except what it is for. Answered clears nobody but the Unknown; Served clears everybody.
//
// A fault ends when the opposite is shown, not when time has passed. A new connection
// repairs nothing.
//
// In full, where a dot stands for the state it is in:
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
// What is not obvious in it:
//
//   - A Suspected endpoint whose connection is lost is Unknown: the loss explains the
//     silence. If the endpoint is gone, connecting to it will show that.
//   - An endpoint that cannot be connected to is Dead, and stays so when it can: a member
//     that was just started accepts connections long before it serves.
//   - A Restricted endpoint that is Degrading stays Restricted: it can do the same.
//   - A Dead endpoint that is alive and stuck is Lagging.
//
// # Silence
//
// How much silence is suspicious depends on what is silent. [Latency] learns how long calls
// of one shape take, [Pace] how long a stream pauses. A [Prober] finds out what a silence
// means; package etcdprobe has one for etcd, grpcprobe for any service with grpc.health.v1.
//
// # Sharing
//
// Clients of a process that share a [Table] share an opinion of an endpoint: its state, its
// latency, the latest sign of life. One of them probes it for all. Whether a connection is
// alive is not shared: each client finds that out for its own.
package health
