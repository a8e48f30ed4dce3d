package fault

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/pace"
)

const (
	// shortestHold and longestHold bound how long a fault is held.
	shortestHold, longestHold = 500 * time.Millisecond, 3 * time.Second
	// shortestCalm and longestCalm bound the time between two faults.
	shortestCalm, longestCalm = 300 * time.Millisecond, 1500 * time.Millisecond
	// shortestCut and longestCut bound the time between two cuts of connections.
	shortestCut, longestCut = 300 * time.Millisecond, 2500 * time.Millisecond
)

// Storm injects one random fault after another until ctx ends, and breaks random connections all the while. It returns
// when the cluster is healed.
//
// The faults are drawn from the scene's Rand and the connections from cuts, so that neither changes
// what the other draws. The scene's Hold is ignored. Storm counts each fault by its name, and how often all connections of clients
// to a member were reset apart from the faults.
//
// It notes and counts a fault that cannot be injected, and goes on; it ends if the
// cluster cannot be healed within a minute.
func Storm(ctx context.Context, scene Scene, cuts *rand.Rand, count func(what string)) error {
	scene.Hold = longestHold
	ctx, cancel := context.WithCancel(ctx)
	var cutting sync.WaitGroup
	cutting.Go(func() { breakConnections(ctx, scene.Cluster, cuts, count) })
	defer cutting.Wait()
	defer cancel()
	var upcoming []Fault // each comes once before any comes again
	for pause.For(ctx, pace.Between(scene.Rand, shortestCalm, longestCalm)) == nil {
		if len(upcoming) == 0 {
			upcoming = ForSoaks()
			scene.Rand.Shuffle(len(upcoming), func(i, j int) { upcoming[i], upcoming[j] = upcoming[j], upcoming[i] })
		}
		f := upcoming[0]
		upcoming = upcoming[1:]
		count(f.Name)
		if err := f.Inject(context.WithoutCancel(ctx), scene); err != nil { // what it did can be healed
			count("not injected")
			scene.Note(err.Error())
		}
		_ = pause.For(ctx, pace.Between(scene.Rand, shortestHold, longestHold)) // it is healed early when ctx ends
		if err := Heal(context.WithoutCancel(ctx), scene); err != nil {
			return err
		}
	}
	return nil
}

// breakConnections resets all connections of clients to a random member, now and
// then, until ctx ends.
func breakConnections(ctx context.Context, c *lab.Cluster, rng *rand.Rand, count func(what string)) {
	members := c.Members()
	for pause.For(ctx, pace.Between(rng, shortestCut, longestCut)) == nil {
		c.ClientLink(members[rng.IntN(len(members))]).Break()
		count("connections cut")
	}
}
