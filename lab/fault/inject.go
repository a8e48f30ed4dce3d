package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

const (
	// slowness is what the slow fault adds to everything that its member sends.
	slowness = 200 * time.Millisecond
	// terminateTimeout bounds the end of a member that is asked to end.
	terminateTimeout = 20 * time.Second
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
