package locks

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

func TestPlansCoverEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for range 2000 {
		p := newPlan(rng, 4)
		for what, is := range map[string]bool{
			"nothing": p.incident == nothing, "paused waiting": p.incident == pausedWaiting, "paused holding": p.incident == pausedHolding,
			"delayed": p.incident == delayed, "orphaned": p.incident == orphaned, "closed": p.incident == closed,
			"lock": p.style == lockcheck.Lock, "try": p.style == lockcheck.TryLock, "campaign": p.style == lockcheck.Campaign,
			"short wait": p.waitTimeout < waitTimeout, "lost": p.lost, "delivered": !p.lost, "again": p.again,
			"first lock": p.lock == 0, "last lock": p.lock == 3,
		} {
			if is {
				seen[what]++
			}
		}
		assert.Equal(t, p.lock%2 == 1, p.style == lockcheck.Campaign, "elections and mutexes have names of their own")
		assert.Less(t, p.incidentBefore, len(p.gaps))
		if p.incident == pausedWaiting {
			assert.Greater(t, p.waitTimeout, p.pauseDelay+p.pause, "who is paused while it waits still waits when it is back")
		}
	}
	assert.Len(t, seen, 15, "%v", seen)
}
