package main

import (
	"context"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

// meter counts what the live members of a cluster do during a phase. A member that is
// killed or frozen in the phase, and not there at its end, does not count.
type meter struct {
	begun map[string]reading // of the phase, by the name of the member
}

// startMeter reads the metrics of the live members.
func startMeter(ctx context.Context, members []*lab.Member) (*meter, error) {
	m := &meter{begun: make(map[string]reading)}
	for _, member := range live(members) {
		r, err := read(ctx, member)
		if err != nil {
			return nil, err
		}
		m.begun[member.Name()] = r
	}
	return m, nil
}

// stop returns what the live members have counted since the phase began, all together.
func (m *meter) stop(ctx context.Context, members []*lab.Member) (reading, error) {
	var sum reading
	for _, member := range live(members) {
		r, err := read(ctx, member)
		if err != nil {
			return sum, err
		}
		sum.add(r, 1)
		sum.add(m.begun[member.Name()], -1)
	}
	return sum, nil
}

// live returns the members that run and are not frozen.
func live(members []*lab.Member) []*lab.Member {
	out := make([]*lab.Member, 0, len(members))
	for _, m := range members {
		if m.Alive() && !m.Stopped() {
			out = append(out, m)
		}
	}
	return out
}

// reached returns how many connections have reached a member over the links since they were made.
func reached(links []*link.Link) float64 {
	var sum float64
	for _, l := range links {
		stats := l.Stats()
		sum += float64(stats.Accepted) - float64(stats.Refused)
	}
	return sum
}
