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
	"github.com/quorate/quorate/lab/link"
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

// Storm makes a run hard: one random fault after the other, and beside them
// connections that break at all times.
type Storm struct {
	scene Scene
	cuts  *rand.Rand
	// links is locked while the state of links is changed, so that a short cut does
	// not undo what a fault did, or do again what was healed.
	links sync.Mutex
	tally Tally
}

// Tally counts what a storm did.
type Tally struct {
	// Faults by name, and NotInjected those of them that failed to happen, at least
	// in part.
	Faults      map[string]int
	NotInjected int
	// Cuts is how often all connections of clients to a member were reset beside the
	// faults.
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

// NewStorm returns a storm over a scene. The scene's Rand chooses the faults and
// cuts the connections, so that the one does not change what the other draws. Its Hold is
// the storm's own.
func NewStorm(scene Scene, cuts *rand.Rand) *Storm {
	scene.Hold = longestHold
	return &Storm{scene: scene, cuts: cuts, tally: Tally{Faults: map[string]int{}}}
}

// Tally returns the counts so far. It must not be called while Run runs.
func (s *Storm) Tally() Tally { return s.tally }

// Run injects faults until ctx ends and returns when the cluster is healed. A
// fault that cannot be injected is noted and counted and no reason to end; a
// cluster that cannot be healed within a minute is.
func (s *Storm) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.breakConnections(ctx) })
	defer beside.Wait()
	defer cancel()
	return s.faults(ctx)
}

// faults injects faults until ctx ends, each once before any comes again, and heals
// the cluster from the last.
func (s *Storm) faults(ctx context.Context) error {
	var upcoming []Fault
	for pause.For(ctx, pace.Between(s.scene.Rand, shortestCalm, longestCalm)) == nil {
		if len(upcoming) == 0 {
			upcoming = ForSoaks()
			s.scene.Rand.Shuffle(len(upcoming), func(i, j int) { upcoming[i], upcoming[j] = upcoming[j], upcoming[i] })
		}
		if err := s.disturb(ctx, upcoming[0]); err != nil {
			return err
		}
		upcoming = upcoming[1:]
	}
	return nil
}

// disturb injects one fault, holds it, and heals the cluster. A fault that cannot be
// injected is no reason to end, since what it did can be healed.
func (s *Storm) disturb(ctx context.Context, f Fault) error {
	s.tally.Faults[f.Name]++
	if err := s.inject(f); err != nil {
		s.tally.NotInjected++
		s.scene.Note(err.Error())
	}
	_ = pause.For(ctx, pace.Between(s.scene.Rand, shortestHold, longestHold)) // it is healed early when ctx ends
	s.links.Lock()
	defer s.links.Unlock()
	healing, cancel := context.WithTimeout(context.Background(), healTimeout)
	defer cancel()
	return Heal(healing, s.scene)
}

func (s *Storm) inject(f Fault) error {
	s.links.Lock()
	defer s.links.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), injectTimeout)
	defer cancel()
	return f.Inject(ctx, s.scene)
}

// breakConnections resets all connections of clients to a random member, now and
// then, until ctx ends.
func (s *Storm) breakConnections(ctx context.Context) {
	members := s.scene.Cluster.Members()
	for pause.For(ctx, pace.Between(s.cuts, shortestCut, longestCut)) == nil {
		s.reset(s.scene.Cluster, members[s.cuts.IntN(len(members))])
		s.tally.Cuts++
	}
}

// reset cuts the clients' link to a member and puts it back into its condition.
func (s *Storm) reset(c *lab.Cluster, m *lab.Member) {
	s.links.Lock()
	defer s.links.Unlock()
	l := c.ClientLink(m)
	forward, reverse := l.Condition(link.Forward), l.Condition(link.Reverse)
	l.Cut()
	l.Set(link.Forward, forward)
	l.Set(link.Reverse, reverse)
}
