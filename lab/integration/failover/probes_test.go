//go:build experiment

package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/scrape"
)

const (
	// quiet is for how long it is counted what a client costs its members.
	quiet = 5 * time.Second
	// probesPerSuspicion is about three rounds in which the suspect is asked and another
	// member.
	probesPerSuspicion = 6
	// hedgesPerRead is the share of reads that hedging may double in the long run, its
	// budget. In quiet it takes an eighth of that.
	hedgesPerRead = 0.05
	// hedgeDelay is the least time after which a read is hedged. A busy machine makes reads slower than that.
	hedgeDelay = 20 * time.Millisecond
)

// Traffic proves life: while there is some no member is probed, and reads are hardly doubled.
// Who makes a member wait for its disk, as other tests may, makes it a suspect.
func TestTrafficNeedsNoProbes(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w)

	earlier := w.visits()[health.Suspected] // whose probes may still come
	w.reset()
	from := time.Now()
	before := started(t, c)
	require.Eventually(t, func() bool { return sum(w.picked(get)) > sample && time.Since(from) >= quiet }, 4*patience, pollInterval)
	after := started(t, c)
	suspicions := earlier + w.visits()[health.Suspected]
	reads, hedges := sum(w.picked(get)), w.hedged()
	tr.finish(t)
	slow := 0
	for _, c := range tr.gets {
		if c.end.After(from) && c.took() >= hedgeDelay {
			slow++
		}
	}

	t.Logf("%d reads of which %d slow, %d hedges, %d suspicions", reads, slow, hedges, suspicions)
	for _, method := range []string{"Status", "Check"} {
		assert.LessOrEqual(t, after[method]-before[method], suspicions*probesPerSuspicion, "probes of %s", method)
	}
	// A probe for service is a Range too. A read of each caller may have been picked before the
	// counts began.
	assert.LessOrEqual(t, after["Range"]-before["Range"], reads+hedges+callers+suspicions*probesPerSuspicion, "probes of Range")
	assert.LessOrEqual(t, float64(hedges), hedgesPerRead*float64(reads)+float64(slow), "hedges of %d reads", reads)
}

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// started returns how many calls of each method the members have begun to serve.
func started(t *testing.T, c *lab.Cluster) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, m := range c.Members() {
		metrics, err := scrape.Read(within(t, patience), scrape.Client, m.DirectEndpoint())
		require.NoError(t, err)
		for method, n := range metrics.By("grpc_server_started_total", func(labels map[string]string) string { return labels["grpc_method"] }) {
			counts[method] += int(n)
		}
	}
	require.NotEmpty(t, counts)
	return counts
}
