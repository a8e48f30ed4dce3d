package main

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/lab"
)

// meter counts what the live members of a cluster do during a phase. A member that is
// killed or frozen in the phase, and not there at its end, does not count.
type meter struct {
	begun map[int]reading // of the phase, by process id of the member
	ended reading         // of the processes of members that were restarted
}

// startMeter reads the metrics of the live members.
func startMeter(ctx context.Context, members []*lab.Member) (*meter, error) {
	m := &meter{begun: make(map[int]reading)}
	for _, member := range live(members) {
		r, err := read(ctx, member)
		if err != nil {
			return nil, err
		}
		m.begun[member.PID()] = r
	}
	return m, nil
}

// retire counts a member whose process is about to be ended and started again.
func (m *meter) retire(ctx context.Context, member *lab.Member) error {
	r, err := m.since(ctx, member)
	m.ended.add(r, 1)
	return err
}

// stop returns what the live members have counted since the phase began, all together,
// and what retired processes had.
func (m *meter) stop(ctx context.Context, members []*lab.Member) (reading, error) {
	var sum reading
	sum.add(m.ended, 1)
	for _, member := range live(members) {
		r, err := m.since(ctx, member)
		if err != nil {
			return sum, err
		}
		sum.add(r, 1)
	}
	return sum, nil
}

// since returns what a member's process has counted since the phase, or the process,
// began.
func (m *meter) since(ctx context.Context, member *lab.Member) (reading, error) {
	r, err := read(ctx, member)
	r.add(m.begun[member.PID()], -1)
	return r, err
}

func read(ctx context.Context, member *lab.Member) (reading, error) {
	r, err := scrape(ctx, member.DirectEndpoint())
	if err != nil {
		err = fmt.Errorf("read %s: %w", member.Name(), err)
	}
	return r, err
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
