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

const (
	// maxReturn is how long after there is a leader again everything works: 0.5 s, by
	// seven.
	maxReturn = 3500 * time.Millisecond
	// maxOvertaken is how long after that a put is given up which went to the old leader
	// and was lost with it: 1.25 s, by four.
	maxOvertaken = 5 * time.Second
)

func TestCallsOutliveTheLossOfAMajority(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w, longTTL)

	leader, follower := leaderOf(t, c), followerOf(t, c)
	killed := time.Now()
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
	assert.Equal(t, health.Degraded, w.status(survivor).State)
	for _, m := range []*lab.Member{leader, follower} {
		assert.Equal(t, health.Dead, w.status(m).State)
		assert.Error(t, w.status(m).LastErr)
	}

	e := awaitElection(t, c, tr, nil)
	require.NoError(t, follower.Restart(within(t, patience)))
	w.say("%s is back", follower.Name())
	reported, resumed := e.result(t)
	delivered := requireEvent(t, tr.watch, reported)
	require.NoError(t, leader.Restart(within(t, patience)))
	w.awaitUse(t, c.Members()...)
	tr.finish(t)

	gets, puts := lastOf(tr.gets, killed, reported), lastOf(tr.puts, killed, reported)
	t.Logf("leader reported after %v, then newcomers %v, gets that waited %v, puts that waited %v, an event %v; outcomes unknown %d",
		reported.Sub(killed), resumed.Sub(reported), gets.Sub(reported), puts.Sub(reported), delivered.Sub(reported), len(tr.failedPuts()))
	assert.LessOrEqual(t, resumed.Sub(reported), maxReturn, "new gets and puts succeed")
	assert.LessOrEqual(t, gets.Sub(reported), maxReturn, "gets that waited succeed")
	assert.LessOrEqual(t, puts.Sub(reported), maxOvertaken, "puts that waited end")
	assert.LessOrEqual(t, delivered.Sub(reported), maxReturn, "the watch goes on")
	for _, p := range tr.failedPuts() {
		assert.True(t, p.begin.Before(leaderless), "a put failed that no leader can have been sent: %v", p)
	}
}

// requireTimeouts checks how calls end that have less time than there is no majority, and
// that a member without a leader still answers what it can.
func requireTimeouts(t *testing.T, client *clientv3.Client) {
	t.Helper()
	const short = time.Second
	_, err := client.Get(within(t, patience), "k", clientv3.WithSerializable())
	require.NoError(t, err)
	for name, call := range map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := client.Get(ctx, "k")
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := client.Put(ctx, "k", "v")
			return err
		},
	} {
		began := time.Now()
		err := call(within(t, short))
		assert.Equal(t, context.DeadlineExceeded, err, name)
		assert.Greater(t, time.Since(began), short/2, "%s waits for its deadline", name)
		assert.Less(t, time.Since(began), 3*short, "%s ends with its deadline", name)
	}
}

// lastOf returns when the last of the calls ended that began in a stretch of time.
func lastOf(calls []call, from, to time.Time) time.Time {
	var last time.Time
	for _, c := range between(calls, from, to) {
		if c.end.After(last) {
			last = c.end
		}
	}
	return last
}

// requireEvent returns when the first event after a moment was delivered.
func requireEvent(t *testing.T, w *watch, after time.Time) time.Time {
	t.Helper()
	var at time.Time
	require.Eventually(t, func() bool {
		var ok bool
		at, ok = w.nextAfter(after)
		return ok
	}, patience, pollInterval)
	return at
}

// others returns the members but for some.
func others(c *lab.Cluster, but ...*lab.Member) []*lab.Member {
	return slices.DeleteFunc(c.Members(), func(m *lab.Member) bool { return slices.Contains(but, m) })
}
