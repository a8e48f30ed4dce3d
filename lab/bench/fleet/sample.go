package main

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/lab/bench/fleet/crowd"
)

// sample is what was measured of one phase with one kind of client.
type sample struct {
	clients, seconds          float64
	gets, memory, restores    bool // whether there are gets, memory and times to report
	started, answered, failed float64
	leasesLost, watchesLost   float64
	members                   reading
	connections               connections
	returned                  *connections // after the end of the fault
	cpu                       float64      // of the clients, in seconds
	heap, goroutines          float64
	serves                    float64   // when the restarted member answered, in seconds
	answers                   []float64 // when each client's first get was answered, in seconds, sorted
}

// take adds what the clients did between two states. Times count from begun.
func (s *sample) take(before, after crowd.State, begun time.Time) {
	s.answered = float64(after.Answered - before.Answered)
	s.failed = float64(after.Failed - before.Failed)
	s.started = float64(after.Started - before.Started)
	s.leasesLost = float64(after.LeasesLost - before.LeasesLost)
	s.watchesLost = float64(after.WatchesLost - before.WatchesLost)
	s.cpu = (after.CPU - before.CPU).Seconds()
	s.heap, s.goroutines = float64(after.Heap), float64(after.Goroutines)
	slices.Sort(after.FirstAnswers)
	for _, at := range after.FirstAnswers {
		s.answers = append(s.answers, time.Unix(0, at).Sub(begun).Seconds())
	}
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
	rows = append(rows,
		count("stream messages received, per client and second", s.members.messages/each),
		row{Metric: "CPU of the live members, of one core", Unit: percent, Value: 100 * s.members.cpu / s.seconds},
	)
	if ended := s.answered + s.failed; s.gets && ended > 0 {
		rows = append(rows,
			row{Metric: "gets answered", Unit: percent, Value: 100 * s.answered / ended},
			count("RPCs per get", s.members.total()/max(s.started, 1)),
		)
	}
	rows = append(rows, s.connections.rows("")...)
	if s.returned != nil {
		rows = append(rows, s.returned.rows(", after the fault")...)
	}
	if s.restores {
		rows = append(rows, s.times()...)
	}
	rows = append(rows, row{Metric: "CPU of the clients, per client and second", Unit: milliseconds, Value: 1000 * s.cpu / each})
	if s.memory {
		rows = append(rows,
			row{Metric: "heap and stacks, per client", Unit: kilobytes, Value: s.heap / 1024 / s.clients},
			count("goroutines, per client", s.goroutines/s.clients),
		)
	}
	return slices.DeleteFunc(append(rows,
		optional("leases lost", s.leasesLost),
		optional("watches lost", s.watchesLost),
	), func(r row) bool { return r.optional && r.Value == 0 })
}

// rows returns the connections as lines of the table.
func (c connections) rows(when string) []row {
	return []row{
		count("connections opened"+when, c.opened),
		count("  peak in 100 ms"+when, c.peak),
		optional("connections refused"+when, c.refused),
	}
}

// times returns how long the clients waited, from the moment when the restart began.
func (s sample) times() []row {
	rows := []row{{Metric: "restarted member serves after", Unit: seconds, Value: s.serves}}
	all := int(s.clients)
	if half := (all + 1) / 2; len(s.answers) >= half {
		rows = append(rows, row{Metric: "half of the clients have an answer after", Unit: seconds, Value: s.answers[half-1]})
	}
	if len(s.answers) >= all {
		rows = append(rows, row{Metric: "all clients have an answer after", Unit: seconds, Value: s.answers[all-1]})
	}
	return rows
}

func count(metric string, value float64) row { return row{Metric: metric, Value: value} }

func optional(metric string, value float64) row {
	return row{Metric: metric, Value: value, optional: true}
}
