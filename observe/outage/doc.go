// Package outage logs one line when an outage starts and one when it ends, in place of a
// line for every attempt that fails meanwhile.
//
// An endpoint is out while it is lagging, degraded, not serving or dead (see [health.State]),
// the cluster while that is so of every endpoint, those that are restricted aside. An
// endpoint that is suspected, or of which nothing is known, is what it was before.
//
//	{"level":"warn","msg":"an endpoint is out","endpoint":"10.0.0.2:2379","state":"dead",
//	 "evidence":"unresponsive","since":"…","retries":3,"failovers":2,…}
//	{"level":"info","msg":"an endpoint serves again","endpoint":"10.0.0.2:2379",
//	 "out-for":"19.8s","retries":31,"failovers":12,"unknown-outcomes":4,…}
//
// # What makes it quiet
//
// What lasts for less than a second is not worth a line. An outage is over when the
// endpoint has served for a second without a break; what flaps is one outage, and its
// last line counts how often it came back. If the next outage of the endpoint begins
// within a minute of that, it takes two seconds of service to end it, then four, up to a
// minute. So an endpoint, however it flaps, writes a handful of lines and then at most
// two in a minute.
//
// When the whole cluster is out, one line tells it of all endpoints, and one line when
// the first of them serves again; those that are still out then are named in it, and
// have a line each when they come back.
package outage
