package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients in different processes share nothing, so the cost of fleetClients is scaled up to a
// population of fleetPopulation.
const (
	fleetClients    = 100
	fleetPopulation = 10_000
)

// rates returns how much a count grows in each step, for the whole population.
func rates(steps int, step time.Duration, count func() int) (peak, total int) {
	before := count()
	start := before
	for range steps {
		time.Sleep(step)
		synctest.Wait()
		now := count()
		peak, before = max(peak, now-before), now
	}
	const scale = fleetPopulation / fleetClients
	return peak * scale, (before - start) * scale
}

// The load of 10,000 clients on a member that dies and recovers while others serve.
func TestFleetReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := startCluster(t, 3)
		for range fleetClients { // they share nothing
			require.NoError(t, readK(t, newTestChannel(t, Config{Endpoints: cluster.Endpoints(), DialOptions: cluster.DialOptions()})))
		}
		synctest.Wait()
		m := cluster.Member(0)

		m.BreakConnections()
		peak, total := rates(30, 10*time.Millisecond, m.Dials)
		t.Logf("connections lost: %d attempts to connect, at most %d in 10 ms", total, peak)
		assert.Equal(t, fleetPopulation, total)
		assert.LessOrEqual(t, peak, fleetPopulation/5, "200 ms")

		m.Stop()
		time.Sleep(20 * time.Second)
		peak, total = rates(30, time.Second, m.Dials)
		t.Logf("dead for half a minute: %d attempts a second, at most %d", total/30, peak)
		assert.LessOrEqual(t, total/30, 2500)
		time.Sleep(5 * time.Minute)
		peak, total = rates(60, time.Second, m.Dials)
		t.Logf("dead for five minutes: %d attempts a second, at most %d", total/60, peak)
		assert.LessOrEqual(t, total/60, 500)
		assert.LessOrEqual(t, peak, 1500)

		asked := func() (n int) {
			for _, call := range cluster.Calls() {
				if call.Member == m {
					n++
				}
			}
			return n
		}
		m.Start()
		before := asked()
		peak, total = rates(620, 100*time.Millisecond, m.Dials)
		t.Logf("recovered: %d attempts to connect, at most %d in 100 ms", total, peak)
		assert.Equal(t, fleetPopulation, total, "each client connects once, within a minute")
		assert.LessOrEqual(t, peak, fleetPopulation/10)
		probes := float64(asked()-before) / fleetClients
		t.Logf("recovered: %.2f calls of each client", probes)
		assert.LessOrEqual(t, probes, 1.5)
	})
}
