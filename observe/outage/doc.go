// Package outage logs one line when an outage starts and one when it ends, in place of a
// line for every attempt that fails meanwhile.
//
// An endpoint is out while it is lagging, degraded, not serving or dead (see [health.State]).
// The cluster is out while every endpoint that is not restricted is out. A suspected or
// unknown endpoint keeps its previous classification.
//
//	{"level":"warn","msg":"an endpoint is out","endpoint":"10.0.0.2:2379","state":"dead",
//	 "evidence":"unresponsive","since":"…","retries":3,"failovers":2,…}
//	{"level":"info","msg":"an endpoint serves again","endpoint":"10.0.0.2:2379",
//	 "out-for":"19.8s","retries":31,"failovers":12,"unknown-outcomes":4,…}
//
// While an endpoint is out, its latest error is compared with the logged one, 10 s after the line and then less and
// less often, down to every 10 minutes. If the text differs in more than numbers, there is one more line: for example,
// for a member that did not answer and comes back with a certificate that the client does not trust.
//
// # Flapping
//
// Outages of less than a second are not logged. An outage ends when the endpoint has
// served for a second without interruption; flapping counts as one outage, and its last
// line has the number of recoveries. If the next outage begins within a minute, it takes
// two seconds of service to end it, then four, up to a minute. So a flapping endpoint
// logs a few lines and then at most two per minute.
//
// When the whole cluster is out, there is one line for all endpoints, and one when the
// first of them serves again. The latter names the endpoints that are still out; each of
// these has a line when it recovers. Both lines have the number, "out", and name 20 at most.
package outage
