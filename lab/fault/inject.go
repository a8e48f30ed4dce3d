package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

const (
	// slowness is what the slow fault adds to everything that its member sends.
	slowness = 200 * time.Millisecond
	// clientDelay is what the links of all clients add in the fault of that name.
	clientDelay = 100 * time.Millisecond
	// terminateTimeout bounds the end of a member that is asked to end.
	terminateTimeout = 20 * time.Second
	// lostFor is how long there is no majority: long enough for every call to meet it,
	// and short beside the deadline that calls of the lab have by default.
	lostFor = 3 * time.Second
)

// injection makes a fault happen.
type injection func(context.Context, Scene) error

// action is what happens to a member.
type action func(context.Context, Scene, *lab.Member) error

func kill(_ context.Context, _ Scene, m *lab.Member) error { return m.Kill() }

func stop(_ context.Context, _ Scene, m *lab.Member) error { return m.Stop() }

// silence makes the clients' link to a member swallow everything.
func silence(_ context.Context, s Scene, m *lab.Member) error {
	s.Cluster.ClientLink(m).Blackhole(link.Both)
	return nil
}

// isolate cuts a member off from the others.
func isolate(_ context.Context, s Scene, m *lab.Member) error {
	s.Cluster.Isolate(m)
	return nil
}

// eachPeer calls do with the links from a member to each of the others, and back.
func (s Scene) eachPeer(m *lab.Member, do func(to, from *link.Link)) {
	for _, other := range s.Cluster.Members() {
		if other != m {
			do(s.Cluster.PeerLink(m, other), s.Cluster.PeerLink(other, m))
		}
	}
}

// slow delays what a member sends. A message from one member to another is sent
// on a connection that either of them dialled, so both links count.
func slow(_ context.Context, s Scene, m *lab.Member) error {
	s.Cluster.ClientLink(m).Delay(link.Reverse, slowness)
	s.eachPeer(m, func(to, from *link.Link) {
		to.Delay(link.Forward, slowness)
		from.Delay(link.Reverse, slowness)
	})
	return nil
}

// onFollower chooses a follower, notes what becomes of it, and does it.
func onFollower(what string, do action) injection {
	return func(ctx context.Context, s Scene) error {
		m, err := follower(ctx, s)
		if err != nil {
			return err
		}
		s.Note(m.Name() + ", a follower, " + what)
		return do(ctx, s, m)
	}
}

// onLeader notes what becomes of the leader, and does it.
func onLeader(what string, do action) injection {
	return func(ctx context.Context, s Scene) error {
		m, err := s.Cluster.Leader(ctx)
		if err != nil {
			return err
		}
		s.Note(m.Name() + ", the leader, " + what)
		return do(ctx, s, m)
	}
}

// moveLeader hands leadership to a follower, as an operator does before a restart.
var moveLeader = onFollower("is made the leader", func(ctx context.Context, s Scene, m *lab.Member) error {
	return s.Cluster.MoveLeader(ctx, m)
})

func rollingRestart(ctx context.Context, s Scene) error {
	for _, m := range s.Cluster.Members() {
		s.Note(fmt.Sprintf("%s is terminated", m.Name()))
		if err := terminate(ctx, m); err != nil {
			return err
		}
		if err := m.Restart(ctx); err != nil {
			return err
		}
		if err := s.Cluster.WaitReady(ctx); err != nil {
			return err
		}
		s.Note(fmt.Sprintf("%s is back", m.Name()))
	}
	return nil
}

// terminate asks a member to end and kills it when that takes too long.
func terminate(ctx context.Context, m *lab.Member) error {
	ctx, cancel := context.WithTimeout(ctx, terminateTimeout)
	defer cancel()
	if m.Terminate(ctx) != nil {
		return m.Kill()
	}
	return nil
}

// follower chooses a member that does not lead.
func follower(ctx context.Context, s Scene) (*lab.Member, error) {
	leader, err := s.Cluster.Leader(ctx)
	if err != nil {
		return nil, err
	}
	var followers []*lab.Member
	for _, m := range s.Cluster.Members() {
		if m != leader {
			followers = append(followers, m)
		}
	}
	if len(followers) == 0 {
		return nil, fmt.Errorf("the cluster has no follower; it needs at least %d members", MinMembers)
	}
	return followers[s.Rand.IntN(len(followers))], nil
}

func terminateOne(ctx context.Context, s Scene) error {
	members := s.Cluster.Members()
	m := members[s.Rand.IntN(len(members))]
	s.Note(m.Name() + " is terminated")
	return terminate(ctx, m)
}

func noQuorum(_ context.Context, s Scene) error {
	s.Note("every member is cut off from the others")
	for _, m := range s.Cluster.Members() {
		s.Cluster.Isolate(m)
	}
	return nil
}

func allKilled(_ context.Context, s Scene) error {
	s.Note("all members are killed")
	for _, m := range s.Cluster.Members() {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// onClientLinks returns a fault of the clients' links to all members.
func onClientLinks(what string, do func(*link.Link)) injection {
	return func(_ context.Context, s Scene) error {
		s.Note("the clients' links " + what)
		for _, m := range s.Cluster.Members() {
			do(s.Cluster.ClientLink(m))
		}
		return nil
	}
}

// defrag defragments a member for as long as the scene says, one time after the
// other. The member answers nothing that needs its store while it is at it; a store
// of the lab's size takes it a fraction of a second, one of gigabytes many seconds,
// so that repeating it comes near to what operators see.
func defrag(ctx context.Context, s Scene, m *lab.Member) error {
	times := 0
	for end := time.Now().Add(s.hold()); time.Now().Before(end); times++ {
		if _, err := pb.NewMaintenanceClient(m.Conn()).Defragment(ctx, &pb.DefragmentRequest{}); err != nil {
			return fmt.Errorf("defragment %s: %w", m.Name(), err)
		}
	}
	s.Note(fmt.Sprintf("%s was defragmented %d times", m.Name(), times))
	return nil
}

// majorityLost kills as few members as make a majority impossible, and brings one of
// them back, with which there is one again.
func majorityLost(ctx context.Context, s Scene) error {
	members := s.Cluster.Members()
	var lost []*lab.Member
	for _, i := range s.Rand.Perm(len(members))[:(len(members)+1)/2] {
		s.Note(members[i].Name() + " is killed")
		if err := members[i].Kill(); err != nil {
			return err
		}
		lost = append(lost, members[i])
	}
	if err := pause.For(ctx, lostFor); err != nil {
		return err
	}
	s.Note(lost[0].Name() + " is restarted")
	if err := lost[0].Restart(ctx); err != nil {
		return err
	}
	return s.Cluster.WaitReady(ctx)
}

// Heal ends every fault: links carry again, stopped members continue, those that
// are not running are restarted, and all agree on a leader. It returns when that
// is so, or with an error when ctx ends first.
func Heal(ctx context.Context, s Scene) error {
	s.Cluster.Heal()
	s.Front.heal()
	members := s.Cluster.Members()
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = revive(ctx, m) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = s.Cluster.WaitReady(ctx)
	}
	if err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

// revive makes a member run, whatever it does now.
func revive(ctx context.Context, m *lab.Member) error {
	if !m.Alive() {
		return m.Restart(ctx)
	}
	return m.Continue()
}
