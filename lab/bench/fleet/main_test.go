package main

import (
	"bytes"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/servers"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func TestBadUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--clients", "2", "--processes", "3"}, "--processes 1 to the number of clients"},
		{[]string{"--phase", "idle|storm"}, "storm, badcert and swallow run alone"},
		{[]string{"--clients", "0"}, "--clients and --length must be positive"},
		{[]string{"--phase", "("}, "error parsing regexp"},
		{[]string{"--phase", "nosuch"}, `no phase matches --phase "nosuch"`},
		{[]string{"--length", "-1s"}, "--clients and --length must be positive"},
		{[]string{"extra"}, `unexpected argument "extra"`},
	} {
		_, err := parse(tt.args, io.Discard)
		assert.ErrorContains(t, err, tt.want)
	}
}

func TestPhaseLengths(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want time.Duration
	}{
		{nil, usualLength}, {[]string{"--phase", "storm"}, outage}, {[]string{"--phase", "storm", "--length", "5s"}, 5 * time.Second},
	} {
		opts, err := parse(tt.args, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, tt.want, opts.phases[0].length)
	}
	all, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Len(t, all.phases, 5, "the others run alone")
	var help bytes.Buffer
	_, err = parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, p := range allPhases {
		assert.Regexp(t, "(: |, )"+p.name+"[, ]", help.String())
	}
	assert.Equal(t, 100, all.processes)
}

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
