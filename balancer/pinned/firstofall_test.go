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

// pinnedTo returns the form with all of n endpoints connected, and the first one pinned.
func pinnedTo(t *testing.T, n int) (*bed, *firstOfAll) {
	t.Helper()
	b := newBed(n)
	for i := range n {
		b.connected[b.eps[i]] = true
	}
	s := &firstOfAll{pin{env: b.env()}}
	require.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps))
	require.Equal(t, b.eps[0], s.Pinned())
	return b, s
}

func TestFirstOfAllPinsTheFirstThatIsFit(t *testing.T) {
	b := newBed(3)
	b.connect(2)
	s := &firstOfAll{pin{env: b.env()}}
	require.Equal(t, b.eps[2], s.Pick(balancer.Call{}, b.eps[2:]))
	b.connect(0, 1, 2)
	for range 10 {
		assert.Equal(t, b.eps[2], s.Pick(balancer.Call{}, b.eps), "it stays")
	}
	assert.Equal(t, "nothing", lastUnpin(s))
}

func TestFirstOfAllUnpinsForAReason(t *testing.T) {
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			b, s := pinnedTo(t, 3)
			b.note(0, tc.kinds...)
			b.elapsed = time.Minute
			assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
			assert.Equal(t, b.eps[1], s.Pinned())
			assert.Equal(t, "0: "+tc.reason.String()+" at 1m0s", lastUnpin(s))
			assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps), "the old one is fit again, and not gone back to")
		})
	}
	t.Run("disconnected", func(t *testing.T) {
		b, s := pinnedTo(t, 3)
		b.connect(1, 2)
		assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
		assert.Equal(t, "0: disconnected at 0s", lastUnpin(s))
	})
}

func TestFirstOfAllComesBackAtOnce(t *testing.T) {
	b, s := pinnedTo(t, 2)
	b.connect(1)
	require.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	b.connect(0)
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps[:1]), "no time at all has passed")
	assert.Equal(t, "1: disconnected at 0s", lastUnpin(s))
}

func TestFirstOfAllKeepsThePinForACallThatAvoidsIt(t *testing.T) {
	b, s := pinnedTo(t, 3)
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	assert.Equal(t, b.eps[0], s.Pinned())
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps))
	assert.Equal(t, "nothing", lastUnpin(s))
}

func TestFirstOfAllUsesThePinForLocalCalls(t *testing.T) {
	b, s := pinnedTo(t, 2)
	b.note(0, health.Degrading)
	local := balancer.Call{Need: balancer.Local}
	assert.Equal(t, b.eps[0], s.Pick(local, b.eps), "it still can serve these")
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{}, b.eps[1:]))
	assert.Equal(t, b.eps[1], s.Pick(local, b.eps), "another is pinned")
}

func TestFirstOfAllPinsNoUnfitEndpoint(t *testing.T) {
	b, s := pinnedTo(t, 3)
	b.note(0, health.Unresponsive)
	b.note(1, health.Restricting)
	b.note(2, health.Degrading)
	assert.Equal(t, b.eps[1], s.Pick(balancer.Call{Need: balancer.Local}, b.eps[1:]), "the call must go somewhere")
	assert.Equal(t, b.eps[0], s.Pinned())
	b.note(2, health.Served)
	assert.Equal(t, b.eps[2], s.Pick(balancer.Call{}, b.eps[2:]))
	assert.Equal(t, "0: dead at 0s", lastUnpin(s))
}

func TestFirstOfAllWithoutAFitEndpoint(t *testing.T) {
	b := newBed(1)
	b.connect(0)
	b.note(0, health.Degrading)
	s := &firstOfAll{pin{env: b.env()}}
	assert.Equal(t, b.eps[0], s.Pick(balancer.Call{}, b.eps))
	assert.Nil(t, s.Pinned())
}

// TestFirstOfAllConcurrently has calls find the pin dead at the same time: they agree on
// one other endpoint, and one of them notes the reason.
func TestFirstOfAllConcurrently(t *testing.T) {
	b, s := pinnedTo(t, 8)
	s.random = realEnv.random
	b.note(0, health.Unresponsive)
	picked := make([]*balancer.Endpoint, 64)
	var wg sync.WaitGroup
	for i := range picked {
		wg.Go(func() { picked[i] = s.Pick(balancer.Call{}, b.eps[1:]) })
	}
	wg.Wait()
	for _, ep := range picked {
		assert.Equal(t, s.Pinned(), ep)
	}
	assert.Equal(t, "0: dead at 0s", lastUnpin(s))
}

func TestFirstOfAllDoesNotAllocate(t *testing.T) {
	b, s := pinnedTo(t, 3)
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Pick(balancer.Call{}, b.eps) }))
}
