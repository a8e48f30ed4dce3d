package monitoring_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestAlertOnARealMember freezes a real member: the alert on it fires, and clears when the member goes on. Scrapes follow
// each other at once, and are recorded as if they were scrapeInterval apart.
func TestAlertOnARealMember(t *testing.T) {
	rules := readRules(t)
	out := rules[slices.IndexFunc(rules, func(r rule) bool { return r.Alert == "EtcdClientEndpointOut" })]
	ctx := labtest.Within(t, 2*time.Minute) // it takes a few seconds
	cluster := labtest.Start(t, lab.Config{})
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	member := cluster.Members()[(leader.Index()+1)%3]
	client, registry := observed(t, clientv3.Config{Endpoints: cluster.Endpoints()})
	defer func() { assert.NoError(t, client.Close()) }()

	var scraped recording
	now := time.Now()
	fires := func(r rule) bool {
		times := timeline(t, r, &scraped, now.Add(-10*time.Minute), now)
		return slices.ContainsFunc(times, func(at time.Time) bool { return at.UnixMilli() == now.UnixMilli() })
	}
	// scrape works and scrapes until a condition is true, at least for 3 minutes as they are recorded.
	scrape := func(until func() bool) {
		for begin := now; now.Sub(begin) < 3*time.Minute || !until(); {
			_, err := client.Get(ctx, "k")
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
			now = now.Add(scrapeInterval)
			scraped.scrape(t, registry, now)
		}
	}
	scrape(func() bool { return !fires(out) })

	require.NoError(t, member.Stop())
	its := out
	its.Expr = strings.Replace(its.Expr, "{", `{endpoint="`+member.Endpoint()+`",`, 1)
	scrape(func() bool { return fires(its) })

	require.NoError(t, member.Continue())
	scrape(func() bool { return !fires(out) })
}
