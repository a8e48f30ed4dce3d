package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/internal/command"
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
		{[]string{"--repeat", "0"}, "--repeat must be 1 at least; it is 0"},
		{[]string{"--run", "("}, "--run: error parsing regexp"},
		{[]string{"--run", "nosuch"}, `no case matches --run "nosuch"; there are create, `},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"--nosuch"}, "flag provided but not defined"},
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, command.Usage, command.Status(t.Context(), "bench", tt.args, &out, &errOut, run), tt.args)
		assert.Contains(t, errOut.String(), tt.want)
		assert.Empty(t, out.String())
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		args   []string
		cases  int
		repeat int
		short  bool
	}{
		{nil, len(cases.All()), command.DefaultRepeat, false},
		{[]string{"--short"}, len(cases.All()), 1, true},
		{[]string{"--short", "--repeat", "3"}, len(cases.All()), 3, true},
		{[]string{"--run", "^(idle|live)$"}, 2, command.DefaultRepeat, false},
	}
	for _, tt := range tests {
		opts, err := parse(tt.args, &bytes.Buffer{})
		require.NoError(t, err)
		assert.Len(t, opts.Cases, tt.cases)
		assert.Equal(t, tt.repeat, opts.Repeat)
		assert.Equal(t, tt.short, opts.Short)
	}
}

func TestHelp(t *testing.T) {
	var out, errOut bytes.Buffer
	assert.Equal(t, command.OK, command.Status(t.Context(), "bench", []string{"--help"}, &out, &errOut, run))
	for _, c := range cases.All() {
		assert.Contains(t, errOut.String(), c.Name)
	}
}

// TestRun runs the quickest case as a user does.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "MEASURED"},
		{[]string{"--json"}, `"about": "from a put to its event, no latency"`},
	} {
		var out, errOut bytes.Buffer
		status := command.Status(t.Context(), "bench", append(tt.args, "--short", "--run", "^latency$"), &out, &errOut, run)
		require.Equal(t, command.OK, status, errOut.String())
		assert.Contains(t, out.String(), tt.want)
		assert.Contains(t, errOut.String(), "latency: official, 1 of 1\n")
	}
}
