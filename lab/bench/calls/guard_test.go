//go:build experiment

package calls

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// guardRatio is the least part of the official client's throughput, in the median of the rounds, and its inverse the
	// most of its CPU time. Both are near 1, and with the race detector 0.8 and 1.3.
	guardRatio = 0.5
	// guardRounds are how many rounds are made, and guardMostRounds while a bound is missed: other work interrupts the
	// turn of one client and not that of the other, and the median of more rounds depends less on it.
	guardRounds, guardMostRounds = 31, 401
	guardTurn                    = 20 * time.Millisecond
)

// TestThroughput fails if calls are less than half as fast as those of the official client, or take twice the CPU time.
func TestThroughput(t *testing.T) {
	g := groups()[0]
	clients := g.start(t)[1:]
	for _, o := range g.operations[:2] {
		for _, callers := range []int{1, 64} {
			t.Run(fmt.Sprintf("%s/callers=%d", o.name, callers), func(t *testing.T) {
				m := newMeasurement(clients, o, callers)
				for {
					m.round(t, guardTurn)
					if m.rounds() < guardRounds {
						continue
					}
					rate, cpu := m.times("quorate", "official").Median, m.timesCPU("quorate", "official").Median
					kept := rate >= guardRatio && cpu <= 1/guardRatio
					if !kept && m.rounds() < guardMostRounds {
						continue
					}
					const result = "%d rounds: %.2f times the throughput of the official client, %.2f times its CPU time"
					t.Logf(result, m.rounds(), rate, cpu)
					if !kept {
						t.Errorf("the bounds are %v and %v", guardRatio, 1/guardRatio)
					}
					return
				}
			})
		}
	}
}

// TestEveryCall measures each case briefly: it shows only that it works.
func TestEveryCall(t *testing.T) {
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			clients := g.start(t)
			for _, o := range g.operations {
				m := newMeasurement(clients, o, 2)
				m.round(t, time.Millisecond)
				for _, row := range g.table.rowsOf(m) {
					require.Len(t, row, len(g.table.head), o.name)
				}
			}
		})
	}
}
