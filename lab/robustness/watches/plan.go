package watches

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/history"
)

// group is a number of watches whose contexts have the same outgoing metadata, and
// which therefore may share a stream.
type group struct {
	// name in the metadata; empty for none.
	name string
	// requireLeader derives the contexts by clientv3.WithRequireLeader.
	requireLeader bool
	// progress tells that RequestProgress is called for the group.
	progress bool
}

// groups are the groups of a run. Most watches belong to the first.
var groups = []group{
	{},
	{},
	{name: "bookmarks", progress: true},
	{name: "leader", requireLeader: true},
	{name: "leader-bookmarks", requireLeader: true, progress: true},
}

// context returns a context of the group.
func (g group) context(ctx context.Context) context.Context {
	if g.name != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "soak-group", g.name)
	}
	if g.requireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	return ctx
}

// plan is what a reader does with a watch.
type plan struct {
	request history.WatchRequest
	group   group
	// life is how long the watch is read before its reader leaves.
	life time.Duration
	// pause of the reader after each response.
	pause time.Duration
}

const (
	// shortestLife and longestLife bound the life of most watches.
	shortestLife, longestLife = time.Second, 12 * time.Second
	// veryLongLife bounds the life of the others, which meet many faults.
	veryLongLife = time.Minute
	// longestPause bounds the pause of a slow reader.
	longestPause = 50 * time.Millisecond
	// farthestBack and farthestAhead bound how far from the present a watch starts.
	farthestBack, farthestAhead = 400, 60
)

// storeState is the state of the store as a reader knows it when it makes a plan.
type storeState struct {
	// revision is about the current one.
	revision int64
	// compacted is the last revision that history was compacted to.
	compacted int64
}

// newPlan makes a plan for a watch.
func newPlan(rng *rand.Rand, known storeState) plan {
	p := plan{group: groups[rng.IntN(len(groups))]}
	p.request = history.WatchRequest{
		StartRevision:  startRevision(rng, known),
		PrevKV:         rng.IntN(2) == 0,
		ProgressNotify: rng.IntN(3) == 0,
		CreatedNotify:  rng.IntN(3) == 0,
		Fragment:       rng.IntN(2) == 0,
		NoPut:          rng.IntN(8) == 0,
		NoDelete:       rng.IntN(8) == 0,
		RequireLeader:  p.group.requireLeader,
	}
	p.request.Key, p.request.RangeEnd = keys(rng)
	p.behave(rng)
	return p
}

// behave chooses how long and how fast a watch is read.
func (p *plan) behave(rng *rand.Rand) {
	p.life, p.pause = pace.Between(rng, shortestLife, longestLife), 0
	if rng.IntN(5) == 0 {
		p.life = pace.Between(rng, longestLife, veryLongLife)
	}
	if rng.IntN(6) == 0 {
		p.pause = pace.Between(rng, 0, longestPause)
	}
}

// again returns the plan to take over where a watch of this one ended, as a program
// does that must not miss anything.
func (p plan) again(rng *rand.Rand, next int64) plan {
	p.request.StartRevision = next
	p.behave(rng)
	return p
}

// keys chooses what to watch.
func keys(rng *rand.Rand) (key, rangeEnd string) {
	switch n := rng.IntN(20); {
	case n < 7:
		return randomKey(rng), ""
	case n < 9:
		return quietKey, ""
	case n < 12:
		return keyPrefix + "a/", keyPrefix + "a0"
	case n < 15:
		return keyPrefix, "/soak0"
	case n < 18:
		return keyPrefix + "a/3", keyPrefix + "b/5"
	default:
		return keyPrefix + "b/", "\x00"
	}
}

// startRevision chooses where to start: anywhere from what has been compacted to
// the future.
func startRevision(rng *rand.Rand, known storeState) int64 {
	revision := int64(0)
	switch n := rng.IntN(20); {
	case n < 7:
		return 0
	case n < 11:
		revision = known.revision - rng.Int64N(farthestBack)
	case n < 14:
		revision = known.compacted + rng.Int64N(farthestBack/4)
	case n < 15:
		revision = known.compacted - 2 + rng.Int64N(5)
	case n < 17:
		revision = known.revision + 1 + rng.Int64N(farthestAhead)
	default:
		revision = known.revision + 1
	}
	return max(revision, 1)
}
