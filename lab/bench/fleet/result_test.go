package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/servers"
)

func TestTable(t *testing.T) {
	r := result{clients: 2, phases: []phaseResult{{phase: allPhases()[4]}, {phase: allPhases()[0]}}}
	theirs := sample{
		clients: 2, seconds: 10, gets: true, started: 20, answered: 15, failed: 5,
		members: reading{rpcs: map[string]float64{"KV/Range": 40}},
	}
	ours := theirs
	ours.members = reading{rpcs: map[string]float64{"KV/Range": 20, "Maintenance/Status": 10}}
	ours.leasesLost = 1
	r.phases[0].add(servers.Official, theirs.rows())
	r.phases[0].add(servers.Quorate, ours.rows())
	r.complete()
	var b strings.Builder
	require.NoError(t, writeTable(&b, r))
	text := strings.Join(strings.FieldsFunc(b.String(), func(c rune) bool { return c == ' ' }), " ")
	for _, want := range []string{
		"\nRPCs received, per client and second 2 1.5 1.33\n KV/Range 2 1 2\n Maintenance/Status 0 0.5 0\n",
		"\ngets answered 75 % 75 % 1\n",
		"\nRPCs per get 2 1.5 1.33\n",
		"\nleases lost 0 1 0\n",
		"\nno-quorum: the leader and a follower are killed.\n",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "watches lost")
	assert.NotContains(t, text, "idle", "not measured")
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{"0": 0.001, "0.33": 1.0 / 3, "17": 17, "12.95": 12.949, "1235": 1234.56} {
		assert.Equal(t, want, number(v))
	}
}
