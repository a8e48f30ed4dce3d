package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

const (
	// slowness is what the slow fault adds to everything that its member sends.
	slowness = 200 * time.Millisecond
	// patience is how long a member may take to end when it is asked to.
	patience = 10 * time.Second
)

func kill(ctx context.Context, s Scene) error {
	return onFollower(ctx, s, "is killed", (*lab.Member).Kill)
}

func stop(ctx context.Context, s Scene) error {
	return onFollower(ctx, s, "is stopped", (*lab.Member).Stop)
}

func blackhole(ctx context.Context, s Scene) error {
	return onFollower(ctx, s, "is blackholed for clients", s.silence)
}

func partition(ctx context.Context, s Scene) error {
	return onFollower(ctx, s, "is cut off from the other members", s.isolate)
}

// silence makes the clients' link to a member swallow everything.
func (s Scene) silence(m *lab.Member) error {
	s.Cluster.ClientLink(m).Blackhole(link.Both)
	return nil
}

// isolate cuts a member off from the others.
func (s Scene) isolate(m *lab.Member) error {
	s.Cluster.Isolate(m)
	return nil
}

// slow delays what a follower sends. A message from one member to another is sent
// on a connection that either of them dialled, so both links count.
func slow(ctx context.Context, s Scene) error {
	return onFollower(ctx, s, fmt.Sprintf("sends everything %v late", slowness), func(m *lab.Member) error {
		s.Cluster.ClientLink(m).Delay(link.Reverse, slowness)
		for _, other := range s.Cluster.Members() {
			if other != m {
				s.Cluster.PeerLink(m, other).Delay(link.Forward, slowness)
				s.Cluster.PeerLink(other, m).Delay(link.Reverse, slowness)
			}
		}
		return nil
	})
}

// onFollower chooses a follower, notes what becomes of it, and does it.
func onFollower(ctx context.Context, s Scene, what string, do func(*lab.Member) error) error {
	m, err := follower(ctx, s)
	if err != nil {
		return err
	}
	s.Note(m.Name() + ", a follower, " + what)
	return do(m)
}

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

// terminate asks a member to end, and kills it when it does not in time, so that
// it is never left half gone.
func terminate(ctx context.Context, m *lab.Member) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := m.Terminate(ctx); err != nil {
		return errors.Join(err, m.Kill())
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
