package fault_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

func TestParse(t *testing.T) {
	unnamed, err := fault.Parse(nil)
	require.NoError(t, err)
	assert.Equal(t, fault.Names(fault.Default()), fault.Names(unnamed))
	assert.Len(t, unnamed, 7)
	some, err := fault.Parse([]string{"stop", "kill", "stop"})
	require.NoError(t, err)
	assert.Equal(t, []string{"stop", "kill", "stop"}, fault.Names(some))
	_, err = fault.Parse([]string{"kill", "flood"})
	require.EqualError(t, err, `unknown fault "flood": the faults are kill, stop, blackhole, partition, slow, leader-kill, `+
		`rolling-restart, defrag, leader-stop, leader-blackhole, leader-partition, leader-move, majority-lost, `+
		`nat, nat-one, loss, move, vip, flap, two-frozen, pause, transfer, second-frozen, expired`)
	for _, f := range fault.All() {
		assert.Equal(t, strings.ToLower(f.Name), f.Name)
		assert.NotEmpty(t, f.Summary)
	}
}

func TestSiteOf(t *testing.T) {
	some, err := fault.Parse([]string{"vip", "kill"})
	require.NoError(t, err)
	_, err = fault.SiteOf(some)
	require.EqualError(t, err, "the faults vip and kill need different clusters: name them in different runs")
	site, err := fault.SiteOf(nil)
	require.NoError(t, err)
	assert.Equal(t, fault.Direct, site)
}
