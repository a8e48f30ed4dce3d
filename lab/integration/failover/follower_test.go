//go:build experiment

package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorate/quorate/lab"
)

// What a fault of one member that does not lead may cost: 0.3 s without a get by seven, 1 s
// for the slowest get and 1.2 s for the slowest put by three. The fault is held for longer. On a
// busy machine it may cost more by what bareCalls of the slowest bare calls take: an attempt, a probe round and another attempt.
const (
	maxGap = 2 * time.Second
	maxGet = 3 * time.Second
	maxPut = 3600 * time.Millisecond

	bareCalls = 3
)

func TestAFaultOfAFollowerIsSurvived(t *testing.T) {
	c := start(t)
	for _, name := range []string{"kill", "stop", "blackhole", "partition", "slow", "defrag"} {
		t.Run(name, func(t *testing.T) {
			w := connect(t, c, "")
			tr := begin(t, c, w, ttl)
			beside := beginBare(c, "bare/"+tr.prefix)
			t.Cleanup(beside.end)
			s := inject(t, c, w, name)
			tr.awaitCalls(t, s.from)
			s.heal(t, w)
			w.awaitUse(t, s.victim)
			busy := tr.finishBeside(t, beside, s.victim)
			evaluateOneMember(t, tr, s, busy)
			for member, n := range w.unknownAt() {
				if busy < maxGap { // a member that does not get to run is no different from the victim
					assert.Equal(t, s.victim.Name(), member, "outcomes are unknown at the victim only")
				}
				assert.LessOrEqual(t, n, callers, "puts were in flight at the victim")
			}
		})
	}
}

// finishBeside ends the traffic, and the calls beside it, and returns what a fault may cost more on a machine that is so
// busy. Where that takes as long as a renewal of the lease has left after the first third of its TTL, the lease may be
// lost, and no client can keep it.
func (tr *traffic) finishBeside(t *testing.T, beside *bare, victim *lab.Member) (busy time.Duration) {
	t.Helper()
	tr.finishCalls(t)
	beside.end()
	busy = bareCalls * beside.slowest(victim)
	if busy < ttl*time.Second*2/3 {
		tr.lease.finish(t)
	}
	return busy
}

// evaluateOneMember checks what a fault cost that left a leader and a majority in reach, on a machine that is so busy.
func evaluateOneMember(t *testing.T, tr *traffic, s *strike, busy time.Duration) {
	t.Helper()
	gets, puts := between(tr.gets, s.from, s.to), between(tr.puts, s.from, s.to)
	requireTraffic(t, gets)
	requireTraffic(t, puts)
	gap := longestGap(tr.gets, s.from, s.to)
	t.Logf("%d gets, longest gap %v, slowest %v; %d puts, slowest %v, outcomes unknown %d; allowed for a busy machine %v",
		len(gets), gap, slowest(tr.gets), len(puts), slowest(tr.puts), len(tr.failedPuts()), busy)
	assert.LessOrEqual(t, gap, maxGap+busy, "longest time without a get")
	assert.LessOrEqual(t, slowest(tr.gets), maxGet+busy, "slowest get")
	assert.LessOrEqual(t, slowest(tr.puts), maxPut+busy, "slowest put")
}
