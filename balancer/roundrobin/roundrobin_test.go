package roundrobin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/balancer"
)

func endpoints(n int) []*balancer.Endpoint {
	eps := make([]*balancer.Endpoint, n)
	for i := range eps {
		eps[i] = balancer.Detached(fmt.Sprint(i), nil, nil)
	}
	return eps
}

// rotationOf returns a rotation over the endpoints.
func rotationOf(eps []*balancer.Endpoint) *Rotation {
	turns := make(map[*balancer.Endpoint]*Turn)
	for _, ep := range eps {
		turns[ep] = new(Turn)
	}
	return NewRotation(func(ep *balancer.Endpoint) *Turn { return turns[ep] })
}

// picks returns how often each endpoint is picked in n picks, the i-th of fit(i).
func picks(r *Rotation, n int, fit func(i int) []*balancer.Endpoint) map[*balancer.Endpoint]int {
	counts := make(map[*balancer.Endpoint]int)
	for i := range n {
		counts[r.Next(fit(i))]++
	}
	return counts
}

func TestRotationKeepsOrder(t *testing.T) {
	for _, n := range []int{1, 2, 3, window, window + 1, 3*window + 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			eps := endpoints(n)
			for _, r := range []*Rotation{rotationOf(eps), NewRotation(nil)} {
				var order []string
				for range n {
					order = append(order, r.Next(eps).Address())
				}
				var begin int
				_, err := fmt.Sscan(order[0], &begin)
				require.NoError(t, err)
				for i := range 2 * n {
					assert.Equal(t, fmt.Sprint((begin+i)%n), order[i%n])
					assert.Equal(t, order[i%n], r.Next(eps).Address(), "round %d", i/n+1)
				}
			}
		})
	}
}

func TestRotationStartsAtRandom(t *testing.T) {
	eps := endpoints(4)
	first := make(map[*balancer.Endpoint]int)
	for range 400 { // none of 4 is left out but with probability 4 * 0.75^400
		first[Builder.Build(nil).Pick(balancer.Call{}, eps)]++
	}
	assert.Len(t, first, 4)
}

// TestFairWhenFitChanges changes fit in rhythms with which a plain counter falls into step: one
// endpoint would get nothing. No endpoint misses more calls in a row that it is fit for than there
// are others.
func TestFairWhenFitChanges(t *testing.T) {
	a := endpoints(4)
	random := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		name string
		fit  func(i int) []*balancer.Endpoint
		want []int // of 1200 picks, by endpoint; nil for any
	}{
		{"every other call can use two of three", inTurn(a[:3], a[:2]), []int{450, 450, 300, 0}},
		{"two pairs that share one", inTurn(a[:2], a[1:3]), []int{400, 400, 400, 0}},
		{"two pairs apart", inTurn(a[:2], a[2:]), []int{300, 300, 300, 300}},
		{"one has every other call to itself", inTurn(a[:3], a[:1]), []int{800, 200, 200, 0}},
		{"one flaps with the calls", inTurn(a, a, a, a[:3], a[:3], a[:3]), []int{333, 333, 333, 200}},
		{"at random", func(int) []*balancer.Endpoint {
			from := random.IntN(4)
			return a[from : from+1+random.IntN(4-from)]
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rotationOf(a)
			counts, lost := make(map[*balancer.Endpoint]int), make(map[*balancer.Endpoint]int)
			for i := range 1200 {
				fit := tc.fit(i)
				picked := r.Next(fit)
				for _, ep := range fit {
					lost[ep]++
					require.LessOrEqual(t, lost[ep], len(a), "pick %d: endpoint %s has lost all calls for long", i, ep.Address())
				}
				lost[picked] = 0
				counts[picked]++
			}
			for i, want := range tc.want {
				assert.InDelta(t, want, counts[a[i]], 3, "endpoint %d", i)
			}
		})
	}
}

// inTurn gives each call the next one of fits.
func inTurn(fits ...[]*balancer.Endpoint) func(int) []*balancer.Endpoint {
	return func(i int) []*balancer.Endpoint { return fits[i%len(fits)] }
}

func TestManyFairWhenOneFlaps(t *testing.T) {
	const n, rounds = 40, 100
	eps := endpoints(n)
	counts := picks(rotationOf(eps), n*rounds, func(i int) []*balancer.Endpoint {
		if i%2 == 0 {
			return eps
		}
		return eps[:n-1]
	})
	for _, ep := range eps[:n-1] {
		assert.InDelta(t, rounds, counts[ep], 0.2*rounds, "endpoint %s", ep.Address())
	}
}

func TestConcurrentPicksAreFair(t *testing.T) {
	const goroutines, each = 8, 3000
	for _, weights := range [][]uint32{{1, 1, 1}, {3, 1}} {
		eps := weighing(weights...)
		r, sum := rotationOf(eps), uint32(0)
		counts := make(map[*balancer.Endpoint]*atomic.Int64)
		for i, ep := range eps {
			counts[ep] = new(atomic.Int64)
			sum += weights[i]
		}
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range each {
					counts[r.Next(eps)].Add(1)
				}
			})
		}
		wg.Wait()
		for i, ep := range eps {
			assert.InDelta(t, goroutines*each*weights[i]/sum, counts[ep].Load(), 0.02*goroutines*each, "weights %v", weights)
		}
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	for _, eps := range [][]*balancer.Endpoint{endpoints(3), weighing(3, 2, 1)} {
		r := rotationOf(eps)
		assert.Zero(t, testing.AllocsPerRun(100, func() { r.Next(eps) }))
	}
}

func TestStrategyAttachesTurns(t *testing.T) {
	s := Builder.Build(nil)
	assert.Equal(t, "round_robin", Builder.Name)
	require.Implements(t, (*balancer.Attacher)(nil), s)
	assert.IsType(t, (*Turn)(nil), s.(balancer.Attacher).Attach(endpoints(1)[0]))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func weighing(weights ...uint32) []*balancer.Endpoint {
	eps := endpoints(len(weights))
	for i, w := range weights {
		eps[i].SetWeight(w)
	}
	return eps
}

// Shares are exact within a few picks: of one list, of lists that replace each other as those of
// pickers do, and where calls to other endpoints come between.
func TestSharesAreByWeight(t *testing.T) {
	many := make([]uint32, 400)
	for i := range many {
		many[i] = uint32(10 - i%10)
	}
	for _, weights := range [][]uint32{{2, 1}, {5, 3, 2}, {100, 1, 1}, {10, 7, 3, 3, 1}, {3, 1, 1}, {50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, many} {
		const rounds = 20
		sum := 0
		for _, w := range weights {
			sum += int(w)
		}
		eps, latest, others := weighing(weights...), []*balancer.Endpoint(nil), weighing(2, 1)
		for name, fit := range map[string]func(i int) []*balancer.Endpoint{
			"one list":  inTurn(eps),
			"two lists": inTurn(eps, slices.Clone(eps)),
			"new lists": func(i int) []*balancer.Endpoint {
				if i%7 == 0 {
					latest = slices.Clone(eps)
				}
				return latest
			},
			"every second call": inTurn(eps, others),
			"every fifth call":  inTurn(eps, others, others, others, others),
		} {
			t.Run(fmt.Sprint(name, len(weights), weights[:2]), func(t *testing.T) {
				r, counts := rotationOf(eps), make(map[*balancer.Endpoint]int)
				for i, left := 0, rounds*sum; left > 0; i++ {
					list := fit(i)
					if ep := r.Next(list); list[0] == eps[0] {
						counts[ep]++
						left--
					}
				}
				for i, w := range weights {
					assert.InDelta(t, rounds*int(w), counts[eps[i]], 5, "weight %d", w)
				}
			})
		}
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
