package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
)

// remove removes what experiments have built.
var remove = func() {}

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		remove()
		os.Exit(status)
	}))
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
