package fault

import (
	"context"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab"
)

// lostFor is how long there is no majority: long enough for every call to meet it,
// and short beside the deadline that calls of the lab have by default.
const lostFor = 3 * time.Second

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
