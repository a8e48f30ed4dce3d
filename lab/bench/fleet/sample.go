package main

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/lab/bench/fleet/clients"
)

// sample is what was measured of one phase with one kind of client.
type sample struct {
	clients, seconds          float64
	gets                      bool // whether there are gets to report
	started, answered, failed float64
	leasesLost, watchesLost   float64
	members                   reading
	opened                    float64 // connections that reached a member
}

// take adds what the clients did between two states.
func (s *sample) take(before, after clients.State) {
	s.answered = float64(after.Answered - before.Answered)
	s.failed = float64(after.Failed - before.Failed)
	s.started = float64(after.Started - before.Started)
	s.leasesLost = float64(after.LeasesLost - before.LeasesLost)
	s.watchesLost = float64(after.WatchesLost - before.WatchesLost)
}

// methodFloor is the rate per client and second below which a method has no row.
const methodFloor = 0.005

// rows returns the sample as lines of the table. Rows of what did not happen are left
// out.
func (s sample) rows() []row {
	each := s.clients * s.seconds
	rows := []row{count("RPCs received, per client and second", s.members.total()/each)}
	for _, method := range slices.Sorted(maps.Keys(s.members.rpcs)) {
		if rate := s.members.rpcs[method] / each; rate >= methodFloor {
			rows = append(rows, count("  "+method, rate))
		}
	}
	rows = append(rows, row{metric: "CPU of the live members, of one core", unit: percent, value: 100 * s.members.cpu / s.seconds})
	if ended := s.answered + s.failed; s.gets && ended > 0 {
		rows = append(rows,
			row{metric: "gets answered", unit: percent, value: 100 * s.answered / ended},
			count("RPCs per get", s.members.total()/max(s.started, 1)),
		)
	}
	rows = append(rows, count("connections opened", s.opened))
	if s.leasesLost > 0 {
		rows = append(rows, count("leases lost", s.leasesLost))
	}
	if s.watchesLost > 0 {
		rows = append(rows, count("watches lost", s.watchesLost))
	}
	return rows
}

func count(metric string, value float64) row { return row{metric: metric, value: value} }
