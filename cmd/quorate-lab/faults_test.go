package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/faults"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// short returns the real experiment with short spells, and with a directory of
// its own, which must be empty afterwards.
func short(t *testing.T) faults.Runner {
	dir := t.TempDir()
	return func(ctx context.Context, cfg faults.Config) (report.Report, error) {
		cfg.Healthy, cfg.Recovery, cfg.Dir = time.Second, 500*time.Millisecond, dir
		rep, err := faults.Run(ctx, cfg)
		assertNothingLeft(t, dir)
		return rep, err
	}
}

// assertNothingLeft checks that a run left no file and no process.
func assertNothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	assert.NoError(t, err)
	assert.Empty(t, entries, "files left behind")
	_, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	assert.ErrorIs(t, err, syscall.ECHILD, "processes left behind")
}

func TestFaultsPrintsJSON(t *testing.T) {
	var seen []faults.Config
	status, stdout, stderr := execRoot(t.Context(), seeing(&seen), "faults", "--fault=slow", "--duration=500ms", "--callers=2", "--timeout=5s", "--json")
	require.Equal(t, cli.OK, status, stderr)
	require.Len(t, seen, 1)
	asked := seen[0]
	assert.Equal(t, []string{"slow"}, namesOf(asked.Faults))
	assert.Equal(t, 500*time.Millisecond, asked.Hold)
	assert.Equal(t, 2, asked.Callers)
	assert.Equal(t, 5*time.Second, asked.CallTimeout)
	var result struct{ Rows []struct{ Name string } }
	dec := json.NewDecoder(strings.NewReader(stdout))
	require.NoError(t, dec.Decode(&result))
	assert.False(t, dec.More(), "nothing but one object on standard output")
	require.Len(t, result.Rows, 2)
	assert.Equal(t, "slow", result.Rows[1].Name)
}

func TestFaultsExitStatus(t *testing.T) {
	bad := report.Report{Rows: []report.Row{{Name: "healthy"}}, Checked: &robustness.Counts{}}
	violate(&bad)
	bad.Add(watchcheck.Reliable, "2 events are missing").Evidence = []string{"response 7"}
	for _, tt := range []struct {
		name                 string
		rep                  report.Report
		err                  error
		status               int
		stdout, json, stderr string
	}{
		{
			"violations", bad, nil, cli.Negative, "reliable: 2 events are missing\n    response 7\n", `"promise": "linearizable"`,
			"quorate-lab: 2 violations, the first: put/0/1 is missing\n",
		},
		{
			"it fails",
			report.Report{Failure: "no disk"},
			errors.New("start the cluster: no disk"), cli.Failure, "", `"failure": "no disk"`,
			"quorate-lab: start the cluster: no disk\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := func(context.Context, faults.Config) (report.Report, error) { return tt.rep, tt.err }
			status, stdout, stderr := execRoot(t.Context(), run, "faults")
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.stdout)
			assert.Equal(t, len(tt.rep.Rows) == 0, stdout == "", "no table without figures")
			assert.Equal(t, tt.stderr, stderr)

			status, stdout, _ = execRoot(t.Context(), run, "faults", "--json")
			assert.Equal(t, tt.status, status)
			assert.Contains(t, stdout, tt.json)
		})
	}
}

// awaitLine reads up to a line that contains a text.
func awaitLine(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the program ended without a line that contains %q", text)
}

// TestFaultsEndsOnCtrlC runs the program itself and interrupts it. It prints what was measured until then.
func TestFaultsEndsOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	cmd, out := program(t, "quorate-lab", dir, "faults", "--fault", "kill", "--duration", "1m", "--seed", "3")
	progress, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	log := bufio.NewScanner(progress)
	awaitLine(t, log, "is killed")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var table bytes.Buffer
	for out.Scan() {
		table.WriteString(out.Text() + "\n")
	}
	require.Error(t, cmd.Wait(), table.String())
	assert.Equal(t, 128+int(syscall.SIGINT), cmd.ProcessState.ExitCode())
	for _, want := range []string{"The seed was 3.", "The run was ended early.", "\nwrites               acknowledged ", "every promise was kept"} {
		assert.Contains(t, table.String(), want)
	}
	assert.Regexp(t, `(?m)^ *healthy +linearizable get +[1-9][^\n]*\n +serializable get +[1-9][^\n]*\n +put +[1-9][^\n]*\n +txn +[1-9]`,
		table.String(), "calls were completed")
	assert.Regexp(t, `(?m)^ *healthy +[1-9][0-9,]*( +[0-9.]+ m?s){2} +\d+\n^ +kill +[0-9,]+( +[0-9.]+ m?s){2} +\d+$`, table.String(), "events were delivered")
	assertNothingLeft(t, dir)
}

func TestAFaultThatIsNamedAloneHasItsOwnLength(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want time.Duration
	}{
		{[]string{"--fault", "flap"}, 18 * time.Second},
		{[]string{"--fault", "flap", "--compare"}, 18 * time.Second},
		{[]string{"--fault", "flap,stop"}, faults.DefaultHold},
		{[]string{"--fault", "stop", "--compare"}, faults.DefaultComparedHold},
		{[]string{"--fault", "flap", "--duration", "3s"}, 3 * time.Second},
	} {
		var seen []faults.Config
		status, _, stderr := execRoot(t.Context(), seeing(&seen), append([]string{"faults"}, tt.args...)...)
		require.Equal(t, cli.OK, status, stderr)
		assert.Equal(t, tt.want, seen[0].Hold, tt.args)
	}
	var seen []faults.Config
	status, _, stderr := execRoot(t.Context(), seeing(&seen), "faults", "--pause", "1s", "--ttl", "5s", "--election", "1s")
	require.Equal(t, cli.OK, status, stderr)
	assert.Equal(t, []time.Duration{time.Second, 5 * time.Second, time.Second}, []time.Duration{seen[0].Pause, seen[0].LeaseTTL, seen[0].Election})
}
