package watches

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
)

const (
	// shortestInterval and longestInterval bound the time between two compactions.
	shortestInterval, longestInterval = time.Second, 10 * time.Second
	// fewKept bounds the revisions that half of the compactions leave, so that
	// many a watch comes too late, and manyKept those that the others leave, so
	// that watches have much to catch up with.
	fewKept, manyKept = 250, 24000
	// compactTimeout bounds one compaction.
	compactTimeout = 2 * time.Second
)

// compactor compacts the history now and then.
type compactor struct {
	cluster *lab.Cluster
	rec     *robustness.Recorder

	mu   sync.Mutex
	made []int64 // with those whose outcome is unknown
}

// run compacts until ctx ends.
func (c *compactor) run(ctx context.Context, rng *rand.Rand) {
	for pause.For(ctx, pace.Between(rng, shortestInterval, longestInterval)) == nil {
		leave := rng.Int64N(fewKept)
		if rng.IntN(2) == 0 {
			leave = rng.Int64N(manyKept)
		}
		if revision := c.rec.Revision() - leave; revision > c.last() {
			c.compact(ctx, rng, revision)
		}
	}
}

// compact compacts through a random member. Its error is of no interest: the
// compaction may be carried out all the same.
func (c *compactor) compact(ctx context.Context, rng *rand.Rand, revision int64) {
	members := c.cluster.Members()
	m := members[rng.IntN(len(members))]
	if !m.Alive() || m.Stopped() {
		return
	}
	c.mu.Lock()
	c.made = append(c.made, revision)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	_, _ = pb.NewKVClient(m.Conn()).Compact(ctx, &pb.CompactionRequest{Revision: revision})
}

// last returns the highest revision that was compacted.
func (c *compactor) last() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == 0 {
		return 0
	}
	return c.made[len(c.made)-1]
}
