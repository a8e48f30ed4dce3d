package balancer_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

const (
	fleetSize  = 10     // clients that share nothing
	population = 10_000 // what they stand for
	interval   = 500 * time.Millisecond
)

// What faults cost 10,000 clients that share nothing, with two calls a second each: attempts to connect, and
// probes. Twelve seconds of the fault, and eighteen after it, count.
func TestFleetInFaults(t *testing.T) {
	freeze := func(s *server) { s.frozen.Shut() }
	thaw := func(s *server) { s.frozen.Open() }
	swallow := func(s *server) { s.frozen.Shut(); s.blackhole.Shut() }
	carry := func(s *server) { s.blackhole.Open(); s.frozen.Open() }
	loseFlows := func(s *server) { forget(s) }
	hangUp := func(s *server) { s.hangsUp.Store(true); s.disconnect() }
	answerAgain := func(s *server) { s.hangsUp.Store(false) }
	nothing := func(*server) {}
	toggle := func(every time.Duration) func([]*server) {
		return func(servers []*server) {
			for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(every) {
				servers[0].frozen.Shut()
				time.Sleep(min(every, 700*time.Millisecond))
				servers[0].frozen.Open()
			}
		}
	}
	during := func(n int, begin, end func(*server)) func([]*server) { // at n of the servers
		return func(servers []*server) {
			each(servers[:n], begin)
			time.Sleep(12 * time.Second)
			each(servers[:n], end)
		}
	}
	for name, test := range map[string]struct {
		servers int
		fault   func([]*server)
		dials   float64 // of a client, at most
		busiest float64 // of a client in a second, at most
	}{
		"one is frozen":         {3, during(1, freeze, thaw), 2, 1},
		"two of three frozen":   {3, during(2, freeze, thaw), 4, 2},
		"all frozen":            {3, during(3, freeze, thaw), 6, 1},
		"the only one frozen":   {1, during(1, freeze, thaw), 6, 1},
		"one pauses":            {3, toggle(2300 * time.Millisecond), 2, 1},
		"one flaps":             {3, toggle(2 * time.Second), 6, 1},
		"all flows forgotten":   {3, during(3, loseFlows, nothing), 4, 2},
		"the only flow is lost": {1, during(1, loseFlows, nothing), 2, 1},
		"a flow is forgotten":   {3, during(1, loseFlows, nothing), 2, 1},
		"all is swallowed":      {3, during(3, swallow, carry), 40, 3},
		"all refuse":            {3, during(3, (*server).kill, (*server).restart), 16, 6},
		"failed handshakes":     {3, during(3, hangUp, answerAgain), 16, 6},
	} {
		subtest(t, name, test.servers, func(t *testing.T, servers []*server) {
			var clients []*client
			for range fleetSize {
				c := warm(t, roundRobin, servers)
				c.load(1, interval, 30*time.Second, false)
				clients = append(clients, c)
			}
			time.Sleep(time.Second)
			dialed, probed := dials(servers), probesOf(clients)
			go test.fault(servers)
			var busiest int64
			for range 30 {
				before := dials(servers)
				time.Sleep(time.Second)
				busiest = max(busiest, dials(servers)-before)
			}
			synctest.Wait()
			dialed, probed = dials(servers)-dialed, probesOf(clients)-probed
			const scale = population / fleetSize
			t.Logf("attempts to connect: %d, %d in the busiest second; probes: %d", dialed*scale, busiest*scale, probed*scale)
			assert.LessOrEqual(t, float64(dialed)/fleetSize, test.dials, "attempts to connect")
			assert.LessOrEqual(t, float64(busiest)/fleetSize, test.busiest, "attempts in the busiest second")
			calls := 30 * time.Second / interval
			assert.LessOrEqual(t, float64(probed)/fleetSize, 10+30*0.25+0.02*float64(calls), "probes: the budget")
			for _, c := range clients { // a read may be cut with a connection whose flow was forgotten
				within(t, time.Minute, "all serve", func() bool {
					return !slices.ContainsFunc(servers, func(s *server) bool { return !c.is(s).Usable() })
				})
				within(t, time.Minute, "reads are answered", func() bool { return c.read().err == nil })
			}
		})
	}
}
