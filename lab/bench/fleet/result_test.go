package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/servers"
)

func TestTable(t *testing.T) {
	rows := func(rate, cpu float64) []row { return []row{{"RPCs received", "", rate}, {"CPU", percent, cpu}} }
	var b strings.Builder
	require.NoError(t, writeTable(&b, options{clients: 2}, []result{
		{allPhases[4], map[servers.Client][]row{servers.Official: rows(2, 12.96), servers.Quorate: rows(1.0/3, 1234.56)}},
		{allPhases[0], map[servers.Client][]row{servers.Official: rows(0, 1)}},
	}))
	text := strings.Join(strings.FieldsFunc(b.String(), func(c rune) bool { return c == ' ' }), " ")
	for _, want := range []string{
		"NO-QUORUM, 30s: the leader and a follower are killed\n",
		"RPCs received 2 0.33\nCPU 13 % 1,235 %\n",
		"RPCs received 0\nCPU 1 %\n",
	} {
		assert.Contains(t, text, want)
	}
}
