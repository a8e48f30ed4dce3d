//go:build experiment

package failover_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab"
)

func TestCallsOutliveTheLossOfAMajority(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w)

	leader, follower := leaderOf(t, c), followerOf(t, c)
	require.NoError(t, leader.Kill())
	require.NoError(t, follower.Kill())
	w.say("%s and %s are killed", leader.Name(), follower.Name())
	survivor := others(c, leader, follower)[0]
	require.Eventually(t, func() bool {
		status, err := survivor.Status(t.Context())
		return err == nil && status.Leader == 0
	}, patience, pollInterval)
	leaderless := time.Now()
	requireTimeouts(t, w.client)
	// Errors of contexts stay bare, because programs compare them. Why calls wait is said
	// of the endpoints.
	is := func(m *lab.Member, state health.State) func() bool {
		return func() bool { return w.status(m).State == state }
	}
	assert.Eventually(t, is(survivor, health.Degraded), patience, pollInterval)
	for _, m := range []*lab.Member{leader, follower} {
		assert.Eventually(t, is(m, health.Dead), patience, pollInterval)
		assert.Error(t, w.status(m).LastErr)
	}

	require.NoError(t, follower.Restart(within(t, patience)))
	term := termOf(t, survivor)
	w.say("%s is back", follower.Name())
	require.NoError(t, leader.Restart(within(t, patience)))
	w.awaitUse(t, c.Members()...)
	tr.finish(t)
	t.Logf("slowest get %v, put %v; outcomes unknown %d", slowest(tr.gets), slowest(tr.puts), len(tr.failedPuts()))
	if termOf(t, c.Members()...) == term { // members that are short of CPU lose their leader again, and puts with it
		for _, p := range tr.failedPuts() {
			assert.True(t, p.begin.Before(leaderless), "a put failed that no leader can have been sent: %v", p)
		}
	}
}

// requireTimeouts checks how calls end that have less time than there is no majority, and
// that a member without a leader still answers what it can.
func requireTimeouts(t *testing.T, client *clientv3.Client) {
	t.Helper()
	_, err := client.Get(within(t, patience), "k", clientv3.WithSerializable())
	require.NoError(t, err)
	short := within(t, time.Second)
	_, err = client.Get(short, "k")
	assert.Equal(t, context.DeadlineExceeded, err)
	assert.Error(t, short.Err(), "a get waits for its deadline")
	short = within(t, time.Second)
	_, err = client.Put(short, "k", "v")
	assert.Equal(t, context.DeadlineExceeded, err)
	assert.Error(t, short.Err(), "a put waits for its deadline")
}

// others returns the members but for some.
func others(c *lab.Cluster, but ...*lab.Member) []*lab.Member {
	return slices.DeleteFunc(c.Members(), func(m *lab.Member) bool { return slices.Contains(but, m) })
}
