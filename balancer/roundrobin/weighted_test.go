package roundrobin

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/balancer"
)

func weighing(weights ...uint32) []*balancer.Endpoint {
	eps := endpoints(len(weights))
	for i, w := range weights {
		eps[i].SetWeight(w)
	}
	return eps
}

func TestSharesAreByWeight(t *testing.T) {
	for _, weights := range [][]uint32{{2, 1}, {5, 3, 2}, {100, 1, 1}, {10, 7, 3, 3, 1}, {3, 1, 1}, {50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			const rounds = 100
			sum := 0
			for _, w := range weights {
				sum += int(w)
			}
			eps := weighing(weights...)
			counts := picks(rotationOf(eps), rounds*sum, inTurn(eps))
			for i, w := range weights {
				assert.InDelta(t, rounds*int(w), counts[eps[i]], 2, "weight %d", w)
			}
		})
	}
}

// Each endpoint has its share in every window of a round's length.
func TestWeightedTurnsAreSpread(t *testing.T) {
	weights := []uint32{5, 3, 1, 1}
	eps := weighing(weights...)
	r := rotationOf(eps)
	picks(r, 40, inTurn(eps))
	for range 100 {
		counts := picks(r, 10, inTurn(eps))
		r.Next(eps)
		for i, w := range weights {
			assert.InDelta(t, w, counts[eps[i]], 1, "endpoint %d", i)
		}
	}
}

// A returning endpoint gets its share, not the turns that it missed.
func TestMissedWeightedTurnsAreLost(t *testing.T) {
	eps := weighing(4, 2, 2)
	r := rotationOf(eps)
	picks(r, 4000, inTurn(eps[:2]))
	counts := picks(r, 80, inTurn(eps))
	for i, want := range []int{40, 20, 20} {
		assert.InDelta(t, want, counts[eps[i]], 2, "endpoint %d", i)
	}
}

// The clock wraps after some thousand million turns. Neither that nor a long absence of an
// endpoint changes the shares.
func TestWeightedTurnsSurviveAWrappedClock(t *testing.T) {
	const start = math.MaxUint64 - 10*quantum // goes round in the tenth round
	for name, end := range map[string]uint64{
		"with the others": start, "never before": 0, "half a clock behind": start - 1<<63 + 5*quantum,
	} {
		t.Run(name, func(t *testing.T) {
			eps := weighing(3, 2, 1)
			r := rotationOf(eps)
			r.clock.now.Store(start)
			for _, ep := range eps[:2] {
				r.turnOf(ep).end.Store(start)
			}
			r.turnOf(eps[2]).end.Store(end)
			counts := picks(r, 600, inTurn(eps))
			for i, want := range []int{300, 200, 100} {
				assert.InDelta(t, want, counts[eps[i]], 3, "endpoint %d", i)
			}
		})
	}
}
