package balancer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/health"
)

func connections(servers []*server) (open int64) {
	for _, s := range servers {
		open += s.open.Load()
	}
	return open
}

// How many connections a strategy keeps, and how many servers get calls.
func TestStrategiesConnect(t *testing.T) {
	tests := map[string]struct {
		connections int64
		used        int // -1 for what depends on how fast they are
	}{
		`{"quorate_round_robin":{}}`:                 {3, 3},
		`{"quorate_pinned":{"form":"first_of_all"}}`: {3, 1},
		`{"quorate_pinned":{"form":"race"}}`:         {1, 1},
		`{"quorate_pinned":{}}`:                      {1, 1},
		`{"quorate_leader":{}}`:                      {3, 3}, // nobody leads
		`{"quorate_p2c":{}}`:                         {3, -1},
		`{"quorate_nearest":{}}`:                     {3, -1},
	}
	for config, want := range tests {
		t.Run(config, func(t *testing.T) {
			servers := []*server{startServer(t), startServer(t), startServer(t)}
			c := connect(t, config, servers...)
			require.NoError(t, c.call(t.Context()))
			require.Eventually(t, func() bool { return connections(servers) == want.connections }, 5*time.Second, time.Millisecond)
			for _, s := range servers {
				s.calls.Store(0)
			}
			for range 100 {
				require.NoError(t, c.call(t.Context()))
			}
			used := 0
			for _, s := range servers {
				if s.calls.Load() > 0 {
					used++
				}
			}
			if want.used > 0 {
				assert.Equal(t, want.used, used)
			}
			assert.Equal(t, want.connections, connections(servers))
		})
	}
}

// The pinned server dies: another is pinned, at once.
func TestPinnedServerDies(t *testing.T) {
	for _, form := range []string{"race", "first_of_all"} {
		t.Run(form, func(t *testing.T) {
			servers := []*server{startServer(t), startServer(t), startServer(t)}
			c := connect(t, `{"quorate_pinned":{"form":"`+form+`"}}`, servers...)
			require.NoError(t, c.call(t.Context()))
			for _, s := range servers {
				if s.calls.Load() > 0 {
					s.grpc.Stop()
				}
			}
			// The call that finds out may be lost with the connection.
			require.Eventually(t, func() bool { return c.call(t.Context()) == nil }, 5*time.Second, time.Millisecond)
			for range 10 {
				require.NoError(t, c.call(t.Context()))
			}
		})
	}
}

// Strategies that learn leave alone what failed, for longer than a server needs that was frozen and is back.
func TestRestoredServerIsUsedAgain(t *testing.T) {
	for _, config := range []string{`{"quorate_p2c":{}}`, `{"quorate_nearest":{}}`} {
		t.Run(config, func(t *testing.T) {
			servers := []*server{startServer(t), startServer(t)}
			servers[1].delay.Store(int64(10 * time.Millisecond))
			c := connect(t, config, servers...)
			c.meetAll(t, servers...)
			stop := load(c, 4, 10*time.Second)
			defer stop()
			servers[0].freeze()
			requireState(t, c, servers[0], health.Dead)
			servers[0].thaw()
			requireState(t, c, servers[0], health.Serving)
			before := servers[0].calls.Load()
			require.Eventually(t, func() bool { return servers[0].calls.Load() > before+500 }, 15*time.Second, time.Millisecond)
		})
	}
}
