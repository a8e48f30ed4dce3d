// Package cases is what the benchmark measures.
//
// A [Case] runs in a process of its own that holds one client and nothing else, so
// that memory, allocations and CPU time are the client's. The cluster is elsewhere;
// what has to be done to it, a case asks of its [Control].
package cases

import (
	"context"
	"time"
)

// Case is one measurement.
type Case struct {
	// Name is what the case is chosen by.
	Name string
	// About says what is done, in one sentence.
	About string
	// Size is how many of what the case is about there are. ShortSize is that of a
	// short run.
	Size, ShortSize int
	// Members is the size of the cluster.
	Members int
	// Latency is added to each direction of the links to the members. Without any
	// the client speaks to the members directly.
	Latency time.Duration
	// Alone says that each sample needs a new cluster.
	Alone bool
	// Backlog says that Size puts are made to the cluster before.
	Backlog bool
	// ValueSize is the size in bytes of the values that are put, 100 if it is 0.
	ValueSize int
	// MaxRepeat bounds the repetitions of a case that takes long. 0 is no bound.
	MaxRepeat int
	// Metrics are what the samples of the case hold.
	Metrics []Metric
	// Run measures once. An error ends it, see package fatal.
	Run func(ctx context.Context, site Site) Sample
}

// Sample holds the values of one run by the names of their metrics.
type Sample map[string]float64

// Metric is one number that a case measures.
type Metric struct {
	Name string
	// About says what the number is. "{n}" stands for the size of the case.
	About string
	Unit  Unit
}

// Unit is the unit of a metric.
type Unit string

// The units.
const (
	Seconds   Unit = "s"
	Kilobytes Unit = "KB" // 1,024 bytes
	Percent   Unit = "%"
	Count     Unit = ""
)

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
	// Control does things to the cluster.
	Control Control
}

// Prefix is that of all keys of the benchmark.
const Prefix = "bench/"

// All returns all cases in the order in which they are run.
func All() []Case {
	return []Case{creation(), idle(), resume(), replay(), live(), stalled(), latency(), leases()}
}
