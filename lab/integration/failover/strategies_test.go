//go:build experiment

package failover_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

const (
	get = pb.KV_Range_FullMethodName
	put = pb.KV_Put_FullMethodName

	// sample is how many picks are compared at least.
	sample = 300
	// settling bounds the wait for a sample that nothing disturbed, which on a machine that
	// is short of CPU takes several attempts.
	settling = 4 * patience
)

// Each strategy does what its name says, counted in connections and in picks.
func TestStrategies(t *testing.T) {
	c := start(t)
	for name, test := range map[string]func(*testing.T, *lab.Cluster){
		"round_robin":  testRoundRobin,
		"race":         testRace,
		"first_of_all": testFirstOfAll,
		"leader":       testLeader,
		"nearest":      testNearest,
		"p2c":          testP2C,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// use has callers make calls, and a watch, with the policy of a service config.
func use(t *testing.T, c *lab.Cluster, policy string) *recorder {
	t.Helper()
	t.Cleanup(func() { // after the client is closed
		require.Eventually(t, func() bool { return connections(c) == 0 }, patience, pollInterval)
		c.Heal()
	})
	w := connect(t, c, `{"loadBalancingConfig": [`+policy+`]}`)
	startTraffic(t, w.client)
	return w
}

// connections returns how many connections clients have to the members.
func connections(c *lab.Cluster) int {
	n := 0
	for _, m := range c.Members() {
		n += c.ClientLink(m).Stats().Active
	}
	return n
}

// requireConnections waits for the connections that calls have, which the watch shares, as
// it is light; there may be another one if a suspect had to be left.
func requireConnections(t *testing.T, c *lab.Cluster, w *recorder, calls int) {
	t.Helper()
	require.Eventually(t, func() bool {
		n := connections(c)
		return n == calls || n > calls && !w.calm(c.Members())
	}, patience, pollInterval, "calls should have %d connections, and the watch none of its own", calls)
}

// shares returns what part of the calls of a method each member is given from now on, by
// its name, in a sample during which the members that are compared were in order for the client:
// on a busy machine any member is a suspect now and then, and left for a
// moment, by every strategy.
func shares(t *testing.T, w *recorder, method string, compared ...*lab.Member) map[string]float64 {
	t.Helper()
	w.reset()
	var counts map[string]int
	total := 0
	require.Eventually(t, func() bool {
		if !w.calm(compared) {
			w.reset()
		}
		counts, total = w.picked(method), 0
		for _, n := range counts {
			total += n
		}
		return total >= sample && w.calm(compared)
	}, settling, pollInterval)
	parts := map[string]float64{}
	for name, n := range counts {
		parts[name] = float64(n) / float64(total)
	}
	return parts
}

// requireSettles takes samples until one is as it should be: a client has to learn first.
func requireSettles(t *testing.T, what string, settled func() bool) {
	t.Helper()
	for began := time.Now(); !settled(); {
		require.Less(t, time.Since(began), settling, what)
	}
}

func testRoundRobin(t *testing.T, c *lab.Cluster) {
	w := use(t, c, `{"quorate_round_robin": {}}`)
	requireConnections(t, c, w, 3)
	parts := shares(t, w, get, c.Members()...)
	for _, m := range c.Members() {
		assert.InDelta(t, 1.0/3, parts[m.Name()], 0.1)
	}
}

func testRace(t *testing.T, c *lab.Cluster) {
	w := use(t, c, `{"quorate_pinned": {"form": "race"}}`)
	requireConnections(t, c, w, 1)
	assert.Len(t, shares(t, w, get, c.Members()...), 1, "one member is used")
}

func testFirstOfAll(t *testing.T, c *lab.Cluster) {
	w := use(t, c, `{"quorate_pinned": {"form": "first_of_all"}}`)
	requireConnections(t, c, w, 3)
	assert.Len(t, shares(t, w, put, c.Members()...), 1, "one member is used") // a hedge of a get is a pick for a moment
}

func testLeader(t *testing.T, c *lab.Cluster) {
	w := use(t, c, `{"quorate_leader": {}}`)
	requireConnections(t, c, w, 3)
	leader, next := leaderOf(t, c), followerOf(t, c)
	for _, method := range []string{put, get} {
		requireSettles(t, "calls go to the leader", func() bool {
			return maps.Equal(map[string]float64{leader.Name(): 1}, shares(t, w, method, leader))
		})
	}

	require.NoError(t, c.MoveLeader(within(t, patience), next))
	w.say("%s leads", next.Name())
	requireSettles(t, "puts go to the new leader", func() bool {
		return maps.Equal(map[string]float64{next.Name(): 1}, shares(t, w, put, next))
	})
}

// delay is one that makes a member the worse choice, and no suspect.
const delay = 40 * time.Millisecond

func testNearest(t *testing.T, c *lab.Cluster) {
	near := c.Members()[1]
	for _, m := range others(c, near) {
		c.ClientLink(m).Delay(link.Reverse, delay)
	}
	w := use(t, c, `{"quorate_nearest": {}}`)
	requireSettles(t, "all but one call in 64 go to the nearest member", func() bool { return shares(t, w, get, near)[near.Name()] > 0.9 })
}

// A member that is a little late is in order, and p2c prefers others; one that is 200 ms late is
// Slow, and avoided whatever the strategy.
func testP2C(t *testing.T, c *lab.Cluster) {
	for _, delay := range []time.Duration{delay, 200 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			late := followerOf(t, c)
			c.ClientLink(late).Delay(link.Reverse, delay)
			w := use(t, c, `{"quorate_p2c": {}}`)
			requireSettles(t, "calls go elsewhere", func() bool { return shares(t, w, get, others(c, late)...)[late.Name()] < 0.1 })
		})
	}
}
