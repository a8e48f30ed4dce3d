//go:build experiment

package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a new leader may cost, counted from when a member that is well reports it: 0.3 s for calls and 0.5 s
// for watches, ten times as much beside other experiments on two cores.
const (
	maxResume  = 3 * time.Second
	maxDeliver = 5 * time.Second
)

func TestAFaultOfTheLeaderIsSurvived(t *testing.T) {
	c := start(t)
	for _, name := range []string{"leader-kill", "leader-stop", "leader-partition", "leader-move"} {
		t.Run(name, func(t *testing.T) {
			w := connect(t, c, "")
			lifetime := int64(ttl)
			if name == "leader-stop" {
				// When it wakes it can revoke what ran out by its clock, for others renewed it:
				// https://github.com/etcd-io/etcd/issues/15247.
				lifetime = longTTL
			}
			tr := begin(t, c, w, lifetime)
			e := awaitElection(t, c, tr, leaderOf(t, c))
			s := inject(t, c, w, name)
			reported, resumed := e.result(t)
			s.heal(t, w)
			w.awaitUse(t, c.Members()...)
			tr.finish(t)

			delivered, ok := tr.watch.nextAfter(reported)
			require.True(t, ok)
			t.Logf("new leader reported after %v, then gets and puts after %v, an event after %v; slowest get %v, put %v, outcomes unknown %d",
				reported.Sub(s.from), resumed.Sub(reported), delivered.Sub(reported),
				slowest(tr.gets), slowest(tr.puts), len(tr.failedPuts()))
			assert.LessOrEqual(t, resumed.Sub(reported), maxResume, "new gets and puts succeed")
			assert.LessOrEqual(t, delivered.Sub(reported), maxDeliver, "the watch goes on")
		})
	}
}

// Clients that cannot reach a leader who goes on leading see the fault of one member.
func TestALeaderOutOfReachIsLikeAnyMember(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w, ttl)
	beside := beginBare(c, "bare/"+tr.prefix)
	t.Cleanup(beside.end)
	s := inject(t, c, w, "leader-blackhole")
	tr.awaitCalls(t, s.from)
	s.heal(t, w)
	w.awaitUse(t, s.victim)
	evaluateOneMember(t, tr, s, tr.finishBeside(t, beside, s.victim))
}
