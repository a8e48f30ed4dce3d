package failover_test

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/lab"
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
)

// Traffic proves life: while there is some nobody is probed, and reads are hardly doubled.
// Who makes a member wait for its disk, as other tests may, makes it a suspect.
func TestTrafficNeedsNoProbes(t *testing.T) {
	c := start(t)
	w := connect(t, c, "")
	tr := begin(t, c, w, ttl)

	w.reset()
	before := started(t, c)
	time.Sleep(quiet)
	after := started(t, c)
	suspicions := w.visits()[health.Suspected]
	reads := 0
	for _, n := range w.picked(get) {
		reads += n
	}
	hedges := w.hedged()
	tr.finish(t)

	t.Logf("%d reads, %d hedges, %d suspicions", reads, hedges, suspicions)
	require.Greater(t, reads, sample)
	for _, method := range []string{"Status", "Check"} {
		assert.LessOrEqual(t, after[method]-before[method], suspicions*probesPerSuspicion, "probes of %s", method)
	}
	// A probe for service is a Range too. A read of each caller may have been picked before the
	// counts began.
	assert.LessOrEqual(t, after["Range"]-before["Range"], reads+callers+suspicions*probesPerSuspicion, "probes of Range")
	assert.LessOrEqual(t, float64(hedges), hedgesPerRead*float64(reads), "hedges of %d reads", reads)
}

// started returns how many calls of each method the members have begun to serve.
func started(t *testing.T, c *lab.Cluster) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, m := range c.Members() {
		req, err := http.NewRequestWithContext(within(t, patience), http.MethodGet, m.DirectEndpoint()+"/metrics", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if labels, ok := strings.CutPrefix(lines.Text(), "grpc_server_started_total{"); ok {
				_, method, _ := strings.Cut(labels, `grpc_method="`)
				method, _, _ = strings.Cut(method, `"`)
				n, err := strconv.ParseFloat(labels[strings.LastIndex(labels, " ")+1:], 64)
				require.NoError(t, err)
				counts[method] += int(n)
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, resp.Body.Close())
	}
	require.NotEmpty(t, counts)
	http.DefaultClient.CloseIdleConnections()
	return counts
}
