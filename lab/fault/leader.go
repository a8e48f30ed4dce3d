package fault

import (
	"context"

	"github.com/quorate/quorate/lab"
)

func leaderKill(ctx context.Context, s Scene) error {
	return onLeader(ctx, s, "is killed", (*lab.Member).Kill)
}

func leaderStop(ctx context.Context, s Scene) error {
	return onLeader(ctx, s, "is stopped", (*lab.Member).Stop)
}

func leaderBlackhole(ctx context.Context, s Scene) error {
	return onLeader(ctx, s, "is blackholed for clients", s.silence)
}

func leaderPartition(ctx context.Context, s Scene) error {
	return onLeader(ctx, s, "is cut off from the other members", s.isolate)
}

// leaderMove hands leadership to a follower, as an operator does before a restart.
func leaderMove(ctx context.Context, s Scene) error {
	return onFollower(ctx, s, "is made the leader", func(m *lab.Member) error {
		return s.Cluster.MoveLeader(ctx, m)
	})
}

// onLeader notes what becomes of the leader, and does it.
func onLeader(ctx context.Context, s Scene, what string, do func(*lab.Member) error) error {
	m, err := s.Cluster.Leader(ctx)
	if err != nil {
		return err
	}
	s.Note(m.Name() + ", the leader, " + what)
	return do(m)
}
