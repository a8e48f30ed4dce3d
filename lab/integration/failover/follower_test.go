package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What a fault of one member that does not lead may cost: 0.3 s without a get by seven, 1 s
// for the slowest get and 1.2 s for the slowest put by three. The fault is held for longer.
const (
	maxGap = 2 * time.Second
	maxGet = 3 * time.Second
	maxPut = 3600 * time.Millisecond
)

func TestAFaultOfAFollowerIsSurvived(t *testing.T) {
	c := start(t)
	for _, name := range []string{"kill", "stop", "blackhole", "partition", "slow", "defrag"} {
		t.Run(name, func(t *testing.T) {
			w := connect(t, c, "")
			tr := begin(t, c, w, ttl)
			s := inject(t, c, w, name)
			s.heal(t, w)
			w.awaitUse(t, s.victim)
			tr.finish(t)

			evaluateOneMember(t, tr, s)
			for member, n := range w.unknownAt() {
				assert.Equal(t, s.victim.Name(), member, "outcomes are unknown at the victim only")
				assert.LessOrEqual(t, n, callers, "puts were in flight at the victim")
			}
		})
	}
}

// evaluateOneMember checks what a fault cost that left a leader and a majority in reach.
func evaluateOneMember(t *testing.T, tr *traffic, s *strike) {
	t.Helper()
	gets, puts := between(tr.gets, s.from, s.to), between(tr.puts, s.from, s.to)
	requireTraffic(t, gets)
	requireTraffic(t, puts)
	gap := longestGap(tr.gets, s.from, s.to)
	t.Logf("%d gets, longest gap %v, slowest %v; %d puts, slowest %v, outcomes unknown %d",
		len(gets), gap, slowest(tr.gets), len(puts), slowest(tr.puts), len(tr.failedPuts()))
	assert.LessOrEqual(t, gap, maxGap, "longest time without a get")
	assert.LessOrEqual(t, slowest(tr.gets), maxGet, "slowest get")
	assert.LessOrEqual(t, slowest(tr.puts), maxPut, "slowest put")
}
