// Package cases is what the benchmark measures.
//
// A [Case] runs in a process of its own that holds one client and nothing else, so
// that memory, allocations and CPU time are the client's. The cluster is in another
// process; a case acts on it through its [Control].
package cases

import (
	"context"
	"time"
)

// Case is one measurement.
type Case struct {
	// Name selects the case.
	Name string
	// Size is the number of watches, leases or puts of the case. ShortSize is the
	// Size of a short run.
	Size, ShortSize int
	// Members is the size of the cluster.
	Members int
	// Latency is added to each direction of the links to the members. Without any
	// the client speaks to the members directly.
	Latency time.Duration
	// Backlog says that Size puts are made to the cluster before.
	Backlog bool
	// ValueSize is the size in bytes of the values that are put, 100 if it is 0.
	ValueSize int
	// MaxRepeat bounds the repetitions of a case that takes long. 0 is no bound.
	MaxRepeat int
	// Run measures once. An error ends it, see package fatal.
	Run func(ctx context.Context, site Site) Sample
}

// Sample holds the values of one run by the names of their metrics, which end with their units: time-s, memory-KB (of 1,024
// bytes), cpu-%. What is counted has none.
type Sample map[string]float64

// Site is what a case runs on.
type Site struct {
	// Endpoints are those of the members.
	Endpoints []string
	// Size is the case's Size or ShortSize.
	Size int
	// Short is true in a short run.
	Short bool
	// Revision is that of the first put of the backlog.
	Revision int64
	// Control acts on the cluster.
	Control Control
}

// Prefix is that of all keys of the benchmark.
const Prefix = "bench/"

// oneWay is the latency of the links in the cases that have any: a round trip of 2 ms.
const oneWay = time.Millisecond

// All returns all cases in the order in which they are run.
func All() []Case {
	return []Case{
		{Name: "create", Size: 10_000, ShortSize: 500, MaxRepeat: 3, Members: 1, Latency: oneWay, Run: create},
		{Name: "idle", Size: 10_000, ShortSize: 2_000, Members: 1, Run: idleWatches},
		{Name: "resume", Size: 10_000, ShortSize: 500, MaxRepeat: 3, Members: 3, Latency: oneWay, Run: resumeWatches},
		{Name: "replay", Size: 60_000, ShortSize: 5_000, Members: 1, Backlog: true, Run: replayBacklog},
		{Name: "live", Size: 20_000, ShortSize: 2_000, Members: 1, Run: liveEvents},
		{Name: "stalled", Size: 900, ShortSize: 30, Members: 1, ValueSize: 500_000, Run: stalledReader},
		{Name: "latency", Size: 2_000, ShortSize: 200, Members: 1, Run: putToEvent},
		{Name: "leases", Size: 50_000, ShortSize: 1_000, MaxRepeat: 3, Members: 1, Run: keepLeases},
	}
}
