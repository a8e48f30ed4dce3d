package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
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
	// terminateTimeout bounds the end of a member that is asked to end.
	terminateTimeout = 20 * time.Second
	// clientDelay is what the links of all clients add in the fault of that name.
	clientDelay = 100 * time.Millisecond
)

// disturbance is a fault of this package or of package fault.
type disturbance struct {
	name   string
	inject func(context.Context, fault.Scene) error
}

// rollingRestart is the fault that takes too much of a run: a member that has
// watches open takes seven seconds to end when it is asked to. The fault terminate
// does it to one member instead.
const rollingRestart = "rolling-restart"

// disturbances returns all of them.
func disturbances() []disturbance {
	own := []disturbance{
		{"move-leader", moveLeader},
		{"terminate", terminate},
		{"no-quorum", noQuorum},
		{"all-killed", allKilled},
		{"clients-cut", onClientLinks("are cut", (*link.Link).Cut)},
		{"clients-delayed", onClientLinks("are delayed", func(l *link.Link) { l.Delay(link.Both, clientDelay) })},
		{"clients-deaf", onClientLinks("carry nothing to clients", func(l *link.Link) { l.Blackhole(link.Reverse) })},
	}
	for _, f := range fault.All() {
		if f.Name != rollingRestart {
			own = append(own, disturbance{f.Name, f.Inject})
		}
	}
	return own
}

func moveLeader(ctx context.Context, s fault.Scene) error {
	members := s.Cluster.Members()
	to := members[s.Rand.IntN(len(members))]
	s.Note("leadership moves to " + to.Name())
	return s.Cluster.MoveLeader(ctx, to)
}

// terminate asks a member to end and kills it when that takes too long.
func terminate(ctx context.Context, s fault.Scene) error {
	members := s.Cluster.Members()
	m := members[s.Rand.IntN(len(members))]
	s.Note(m.Name() + " is terminated")
	ctx, cancel := context.WithTimeout(ctx, terminateTimeout)
	defer cancel()
	if m.Terminate(ctx) != nil {
		return m.Kill()
	}
	return nil
}

func noQuorum(_ context.Context, s fault.Scene) error {
	s.Note("every member is cut off from the others")
	for _, m := range s.Cluster.Members() {
		s.Cluster.Isolate(m)
	}
	return nil
}

func allKilled(_ context.Context, s fault.Scene) error {
	s.Note("all members are killed")
	for _, m := range s.Cluster.Members() {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// onClientLinks returns a fault of the clients' links to all members.
func onClientLinks(what string, do func(*link.Link)) func(context.Context, fault.Scene) error {
	return func(_ context.Context, s fault.Scene) error {
		s.Note("the clients' links " + what)
		for _, m := range s.Cluster.Members() {
			do(s.Cluster.ClientLink(m))
		}
		return nil
	}
}

// trouble is what makes a run hard: one fault after the other, and connections that
// break at all times.
type trouble struct {
	scene fault.Scene
	// links is held by whoever changes the state of links, so that a short cut does
	// not undo what a fault did, or do again what was healed.
	links  sync.Mutex
	counts map[string]int // of the faults
	failed int            // faults that could not be injected, at least not whole
	cuts   int
}

// faults injects faults until ctx ends, each once before any comes again, and heals
// the cluster from the last.
func (t *trouble) faults(ctx context.Context) error {
	var deck []disturbance
	for sleep(ctx, between(t.scene.Rand, shortestCalm, longestCalm)) == nil {
		if len(deck) == 0 {
			deck = disturbances()
			t.scene.Rand.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		if err := t.face(ctx, deck[0]); err != nil {
			return err
		}
		deck = deck[1:]
	}
	return nil
}

// face injects one fault, holds it, and heals the cluster. A fault that cannot be
// injected is no reason to end a run, since what it did can be healed.
func (t *trouble) face(ctx context.Context, d disturbance) error {
	t.counts[d.name]++
	if err := t.inject(d); err != nil {
		t.failed++
		t.scene.Note(fmt.Sprintf("inject %s: %v", d.name, err))
	}
	_ = sleep(ctx, between(t.scene.Rand, shortestHold, longestHold)) // it is healed early when the run ends
	t.links.Lock()
	defer t.links.Unlock()
	healing, cancel := context.WithTimeout(context.Background(), healTimeout)
	defer cancel()
	return fault.Heal(healing, t.scene)
}

func (t *trouble) inject(d disturbance) error {
	t.links.Lock()
	defer t.links.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), injectTimeout)
	defer cancel()
	return d.inject(ctx, t.scene)
}

// breakConnections resets all connections of clients to a random member, now and
// then, until ctx ends.
func (t *trouble) breakConnections(ctx context.Context, rng *rand.Rand) {
	members := t.scene.Cluster.Members()
	for sleep(ctx, between(rng, shortestCut, longestCut)) == nil {
		t.reset(t.scene.Cluster, members[rng.IntN(len(members))])
		t.cuts++
	}
}

// reset cuts the clients' link to a member and puts it back into its condition.
func (t *trouble) reset(c *lab.Cluster, m *lab.Member) {
	t.links.Lock()
	defer t.links.Unlock()
	l := c.ClientLink(m)
	forward, reverse := l.Condition(link.Forward), l.Condition(link.Reverse)
	l.Cut()
	l.Set(link.Forward, forward)
	l.Set(link.Reverse, reverse)
}
