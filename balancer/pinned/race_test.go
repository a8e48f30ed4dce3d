package pinned

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

func raceAmong(n int) (*bed, *race) {
	b := newBed(n)
	return b, &race{pin: pin{env: b.env()}}
}

// racers are the endpoints that are to have a connection.
func racers(s *race, all []*balancer.Endpoint) []*balancer.Endpoint { return s.Wanted(all) }

// wonBy returns the form with a race that the i-th of n endpoints has won.
func wonBy(t *testing.T, i, n int) (*bed, *race) {
	t.Helper()
	b, s := raceAmong(n)
	require.Equal(t, b.eps, racers(s, b.eps))
	b.connect(i)
	require.Equal(t, b.eps[i:i+1], racers(s, b.eps))
	return b, s
}

func TestRaceIsWonByTheFirstConnected(t *testing.T) {
	b, s := raceAmong(3)
	assert.Equal(t, b.eps, racers(s, b.eps))
	assert.Nil(t, s.Pinned())
	b.connect(1)
	assert.Equal(t, b.eps[1:2], racers(s, b.eps))
	assert.Equal(t, b.eps[1], s.Pinned())
	b.connect(0, 1, 2)
	assert.Equal(t, b.eps[1:2], racers(s, b.eps), "the others were about to be connected")
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps))
	assert.Equal(t, "nothing", lastUnpin(s))
}

func TestRaceIsNotWonByABadOne(t *testing.T) {
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			b, s := raceAmong(2)
			b.note(0, tc.kinds...)
			b.connect(0)
			assert.Equal(t, b.eps, racers(s, b.eps))
			b.connect(0, 1)
			assert.Equal(t, b.eps[1:], racers(s, b.eps))
		})
	}
}

func TestRaceOfNone(t *testing.T) {
	_, s := raceAmong(0)
	assert.Empty(t, racers(s, nil))
	b, s := wonBy(t, 0, 1)
	assert.Empty(t, racers(s, nil), "all endpoints were removed")
	assert.Nil(t, s.Pinned())
	assert.Equal(t, "0: removed at 0s", lastUnpin(s))
	assert.Equal(t, b.eps, racers(s, b.eps), "and are back")
}

// TestRaceForAReason: an endpoint of no use leaves the race, any other one stays
// connected until another one has won.
func TestRaceForAReason(t *testing.T) {
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			b, s := wonBy(t, 0, 3)
			b.note(0, tc.kinds...)
			b.elapsed = time.Minute
			if tc.reason.useful() {
				assert.Equal(t, b.eps, racers(s, b.eps))
				assert.Equal(t, b.eps[0], s.Pinned())
				assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps[:1]))
			} else {
				assert.Equal(t, b.eps[1:], racers(s, b.eps))
				assert.Nil(t, s.Pinned())
			}
			b.connected[b.eps[2]] = true
			assert.Equal(t, b.eps[2:], racers(s, b.eps))
			assert.Equal(t, b.eps[2], s.Pinned())
			assert.Equal(t, "0: "+tc.reason.String()+" at 1m0s", lastUnpin(s))
		})
	}
}

func TestRaceAfterDisconnection(t *testing.T) {
	b, s := wonBy(t, 0, 3)
	b.connect()
	assert.Equal(t, b.eps, racers(s, b.eps), "the old one may come first again")
	assert.Nil(t, s.Pinned())
	assert.Equal(t, "0: disconnected at 0s", lastUnpin(s))
	b.connect(0)
	assert.Equal(t, b.eps[:1], racers(s, b.eps), "there is no time to wait")
}

func TestRaceEndsWithATransientSuspicion(t *testing.T) {
	b, s := wonBy(t, 0, 3)
	b.note(0, health.Answered, health.Suspicious)
	require.Equal(t, b.eps, racers(s, b.eps))
	b.note(0, health.Served)
	assert.Equal(t, b.eps[:1], racers(s, b.eps))
	assert.Equal(t, b.eps[0], s.Pinned())
	assert.Equal(t, "nothing", lastUnpin(s))
}

func TestLoserRacesAgain(t *testing.T) {
	dead := []health.Kind{health.Unresponsive}
	for _, tc := range []struct {
		name string
		n    int
		do   func(b *bed, s *race)
	}{
		{"when it is the only one", 1, func(*bed, *race) {}},
		{"when all are bad", 3, func(b *bed, _ *race) { b.note(1, dead...); b.note(2, health.Refusing) }},
		{"when the others are not to be reached", 3, func(b *bed, _ *race) { b.failing[b.eps[1]], b.failing[b.eps[2]] = true, true }},
		{"when the others are bad or not to be reached", 3, func(b *bed, _ *race) { b.note(1, dead...); b.failing[b.eps[2]] = true }},
		{"when it is found fit", 3, func(b *bed, _ *race) { b.note(0, health.Served) }},
		{"when it is found of some use", 3, func(b *bed, _ *race) { b.note(0, health.Degrading) }},
		{"when another has won and lost", 3, func(b *bed, s *race) {
			b.connect(1)
			racers(s, b.eps)
			b.connect()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, s := wonBy(t, 0, tc.n)
			b.connect()
			b.note(0, dead...)
			if tc.n > 1 {
				require.Equal(t, b.eps[1:], racers(s, b.eps))
			}
			tc.do(b, s)
			assert.Equal(t, b.eps, racers(s, b.eps))
		})
	}
}

func TestRaceWhenThePinIsRemoved(t *testing.T) {
	b, s := wonBy(t, 0, 3)
	assert.Equal(t, b.eps[1:], racers(s, b.eps[1:]))
	assert.Nil(t, s.Pinned())
	assert.Equal(t, "0: removed at 0s", lastUnpin(s))
	b.connect(0, 2)
	assert.Equal(t, b.eps[2:], racers(s, b.eps[1:]))
}

func TestRacePicksAmongTheConnected(t *testing.T) {
	b, s := raceAmong(3)
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:2]), "connected, and the policy has not asked yet")
	assert.Nil(t, s.Pinned(), "calls do not pin")
	b.connect(0)
	racers(s, b.eps)
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{Need: balancer.Local}, b.eps))
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]), "the pin is not fit")
}

func TestWantedDoesNotChangeItsArgument(t *testing.T) {
	b, s := wonBy(t, 1, 3)
	b.connect()
	b.note(1, health.Unresponsive)
	all := []*balancer.Endpoint{b.eps[0], b.eps[1], b.eps[2]}
	require.Len(t, racers(s, all), 2)
	assert.Equal(t, b.eps, all)
}

func TestRacePicksWhilePinsMove(t *testing.T) {
	b, s := wonBy(t, 0, 2)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				assert.Contains(t, b.eps, s.Pick(balancer.Call{}, b.eps))
				s.LastUnpin()
			}
		})
	}
	for i := range 1000 {
		b.connect(i % 2)
		racers(s, b.eps)
	}
	wg.Wait()
	assert.Equal(t, b.eps[1], s.Pinned())
}
