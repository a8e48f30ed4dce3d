package fault

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
	// injectTimeout and healTimeout bound what takes a few seconds at most.
	injectTimeout, healTimeout = time.Minute, time.Minute
)

// Tally counts what a storm did.
type Tally struct {
	// Faults counts the faults by name, and NotInjected those that could not be
	// injected, at least in part.
	Faults      map[string]int
	NotInjected int
	// Cuts is how often all connections of clients to a member were reset, apart
	// from the faults.
	Cuts int
}

// String lists the counts in one line, faults in the order of their names.
func (t Tally) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.Faults)) {
		fmt.Fprintf(&b, "%s %d, ", name, t.Faults[name])
	}
	fmt.Fprintf(&b, "not injected %d, connections cut %d", t.NotInjected, t.Cuts)
	return b.String()
}

// Storm injects one random fault after another until ctx ends, and breaks random connections all the while. It returns
// what it did when the cluster is healed. The scene's Rand chooses the faults and cuts the connections, so that the
// one does not change what the other draws; its Hold is the storm's own.
//
// It notes and counts a fault that cannot be injected, and goes on; it ends if the
// cluster cannot be healed within a minute.
func Storm(ctx context.Context, scene Scene, cuts *rand.Rand) (Tally, error) {
	scene.Hold = longestHold
	tally := Tally{Faults: map[string]int{}}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { tally.Cuts = breakConnections(ctx, scene.Cluster, cuts) })
	err := tally.injectFaults(ctx, scene)
	cancel()
	beside.Wait()
	return tally, err
}

// injectFaults injects faults until ctx ends, each once before any comes again, and heals
// the cluster from the last.
func (t *Tally) injectFaults(ctx context.Context, s Scene) error {
	var upcoming []Fault
	for pause.For(ctx, pace.Between(s.Rand, shortestCalm, longestCalm)) == nil {
		if len(upcoming) == 0 {
			upcoming = ForSoaks()
			s.Rand.Shuffle(len(upcoming), func(i, j int) { upcoming[i], upcoming[j] = upcoming[j], upcoming[i] })
		}
		if err := t.disturb(ctx, s, upcoming[0]); err != nil {
			return err
		}
		upcoming = upcoming[1:]
	}
	return nil
}

// disturb injects one fault, holds it, and heals the cluster. It goes on if a fault
// cannot be injected, since what that did can be healed.
func (t *Tally) disturb(ctx context.Context, s Scene, f Fault) error {
	t.Faults[f.Name]++
	injecting, cancel := context.WithTimeout(context.Background(), injectTimeout)
	defer cancel()
	if err := f.Inject(injecting, s); err != nil {
		t.NotInjected++
		s.Note(err.Error())
	}
	_ = pause.For(ctx, pace.Between(s.Rand, shortestHold, longestHold)) // it is healed early when ctx ends
	healing, cancel := context.WithTimeout(context.Background(), healTimeout)
	defer cancel()
	return Heal(healing, s)
}

// breakConnections resets all connections of clients to a random member, now and
// then, until ctx ends. It returns how often.
func breakConnections(ctx context.Context, c *lab.Cluster, rng *rand.Rand) (times int) {
	members := c.Members()
	for pause.For(ctx, pace.Between(rng, shortestCut, longestCut)) == nil {
		c.ClientLink(members[rng.IntN(len(members))]).Break()
		times++
	}
	return times
}
