package balancer_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/serviceconfig"

	"github.com/quorate/quorate/balancer"
	"github.com/quorate/quorate/health"
)

// The number of connections of a strategy, and of servers that get calls.
func TestStrategiesConnect(t *testing.T) {
	tests := map[string]struct {
		connections int
		used        int // -1 if it depends on timing
	}{
		`{"quorate_round_robin":{}}`:                 {3, 3},
		`{"quorate_pinned":{"form":"first_of_all"}}`: {3, 1},
		`{"quorate_pinned":{"form":"race"}}`:         {1, 1},
		`{"quorate_pinned":{}}`:                      {1, 1},
		`{"quorate_p2c":{}}`:                         {3, -1},
		`{"quorate_nearest":{}}`:                     {3, -1},
	}
	for config, want := range tests {
		subtest(t, config, 3, func(t *testing.T, servers []*server) {
			c := connect(t, config, servers)
			require.NoError(t, c.read().err)
			time.Sleep(time.Second)
			assert.Equal(t, want.connections, connections(servers))
			idle := 0
			for _, calls := range received(servers, func() { c.reads(100) }) {
				if calls == 0 {
					idle++
				}
			}
			if want.used > 0 {
				assert.Equal(t, want.used, len(servers)-idle)
			}
			assert.Equal(t, want.connections, connections(servers))
		})
	}
}

// A call that waits for the frozen connection ends, although the strategy no longer uses the
// endpoint.
func TestPinMovesWhenThePinnedEndpointFreezes(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		c := connect(t, `{"quorate_pinned":{}}`, servers)
		o := c.read()
		require.NoError(t, o.err)
		frozen := c.server(o.at)
		frozen.frozen.Shut()
		stuck := make(chan outcome, 1)
		go func() { stuck <- c.write() }()
		time.Sleep(time.Second)
		again := c.read()
		require.NoError(t, again.err)
		assert.NotSame(t, o.at, again.at)
		assert.LessOrEqual(t, again.took, usual)
		o = <-stuck
		assert.Error(t, o.cut)
		assert.Less(t, o.took, 2*time.Second)
		time.Sleep(time.Second)
		assert.LessOrEqual(t, connections(servers), 2, "a new one, and the frozen one")
		frozen.frozen.Open()
	})
}

// A strategy that learns forgets failures once the endpoint is shown to serve.
func TestRestoredEndpointIsUsedAgain(t *testing.T) {
	for _, config := range []string{`{"quorate_p2c":{}}`, `{"quorate_nearest":{}}`} {
		subtest(t, config, 2, func(t *testing.T, servers []*server) {
			servers[1].delay.Store(int64(10 * time.Millisecond))
			c := warm(t, config, servers)
			c.load(4, 5*time.Millisecond, 10*time.Second, false)
			s := servers[0]
			s.frozen.Shut()
			within(t, 2*time.Second, "dead", func() bool { return c.is(s) == health.Dead })
			s.frozen.Open()
			within(t, 11*time.Second, "serving", func() bool { return c.is(s) == health.Serving })
			before := s.calls.Load()
			within(t, 3*time.Second, "used", func() bool { return s.calls.Load() > before+100 })
		})
	}
}

// shares returns the shares of the calls in that time that each server gets.
func (c *client) shares(length time.Duration) []float64 {
	shares, sum := make([]float64, len(c.servers)), int64(0)
	calls := received(c.servers, func() { time.Sleep(length) })
	for _, n := range calls {
		sum += n
	}
	for i, n := range calls {
		shares[i] = float64(n) / float64(sum)
	}
	return shares
}

// roleAware is a strategy that needs the roles of endpoints.
type roleAware struct{}

func (roleAware) RoleAware() {}

func (roleAware) Pick(_ balancer.Call, fit []*balancer.Endpoint) *balancer.Endpoint { return fit[0] }

func init() {
	balancer.Register(balancer.Builder{
		Name:  "role_aware",
		Build: func(serviceconfig.LoadBalancingConfig) balancer.Strategy { return roleAware{} },
	})
}

func TestRolesAreRequestedForRoleAwareStrategies(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, servers []*server) {
		var asked atomic.Int64
		c := warm(t, `{"quorate_role_aware":{}}`, servers, func(o *balancer.Options) { o.Status = prober{sent: &asked} })
		assert.GreaterOrEqual(t, asked.Load(), int64(3), "each connected endpoint")
		assert.LessOrEqual(t, asked.Load(), int64(10))
		time.Sleep(time.Minute)
		before := asked.Load()
		time.Sleep(time.Minute)
		assert.Equal(t, before, asked.Load())
		c.endpoint(servers[0]).RolesChanged()
		time.Sleep(time.Millisecond)
		assert.Equal(t, before+3, asked.Load(), "evidence of changed roles")
		for range 1000 {
			c.endpoint(servers[0]).RolesChanged()
		}
		time.Sleep(time.Millisecond)
		assert.LessOrEqual(t, asked.Load(), before+10, "the budget")
		var none *balancer.Endpoint
		none.RolesChanged()
	})
}
