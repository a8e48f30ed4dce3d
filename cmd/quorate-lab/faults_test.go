package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
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

func TestFaultsPrintsATable(t *testing.T) {
	status, stdout, stderr := execRoot(t.Context(), short(t), "faults", "--fault", "stop,kill", "--duration", "1500ms", "--seed", "3")
	require.Equal(t, cli.OK, status, stderr)
	lines := strings.Split(stdout, "\n")
	require.Greater(t, len(lines), 13)
	assert.Equal(t, strings.Fields("FAULT CALL COMPLETED ERRORS UNKNOWN LONGEST GAP P50 P99"), strings.Fields(lines[0]))
	kinds := []string{"linearizable get", "serializable get", "put", "txn"}
	for i, row := range []string{"healthy", "stop", "kill"} {
		for j, kind := range kinds {
			line, name := lines[1+4*i+j], ""
			if j == 0 {
				name = row
			}
			before, after, _ := strings.Cut(line, kind)
			assert.Equal(t, name, strings.TrimSpace(before), line)
			figures := strings.Fields(after)
			require.Len(t, figures, 9, "three counts and three durations with their units: %q", line)
			assert.NotEqual(t, "0", figures[0], "calls were completed: %q", line)
		}
	}
	assert.Empty(t, lines[13])
	head := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "SILENCE  LOST") })
	require.Positive(t, head, stdout)
	assert.Equal(t, strings.Fields("FAULT DELIVERED P50 P99 MAX SILENCE LOST ENDED KEPT EXPIRED MARGIN"), strings.Fields(lines[head]))
	for i, row := range []string{"healthy", "stop", "kill"} {
		figures := strings.Fields(lines[head+1+i])
		require.Contains(t, []int{15, 16}, len(figures), "five counts and five durations with their units, or a dash where no lease was renewed: %q", figures)
		assert.Equal(t, row, figures[0])
		assert.NotEqual(t, "0", figures[1], "events were delivered")
		assert.Equal(t, "0", figures[10], "and none was lost")
	}
	assert.Contains(t, stdout, "none was lost, repeated, out of order or untrue")
	assert.Contains(t, stdout, "none went backwards")
	assert.Contains(t, stdout, "all are there at the end, each applied once")
	assert.Contains(t, stdout, "The seed was 3.")
	for _, want := range []string{"starting 3 members", "a follower, is stopped", "a follower, is killed", "the clients settle"} {
		assert.Contains(t, stderr, want)
	}
}

func TestFaultsPrintsJSON(t *testing.T) {
	var asked faults.Config
	run := func(ctx context.Context, cfg faults.Config) (report.Report, error) {
		asked = cfg
		return fakeExperiment(asItIs)(ctx, cfg)
	}
	status, stdout, stderr := execRoot(t.Context(), run, "faults", "--fault=slow", "--duration=500ms", "--callers=2", "--timeout=5s", "--json")
	require.Equal(t, cli.OK, status, stderr)
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

func TestFaultsFailsWhenAWriteIsLost(t *testing.T) {
	run := fakeExperiment(func(_ int, rep *report.Report) error {
		violate(rep)
		violate(rep)
		return nil
	})
	status, stdout, stderr := execRoot(t.Context(), run, "faults")
	assert.Equal(t, cli.Negative, status)
	assert.Contains(t, stdout, "2 VIOLATIONS:\n- lost_write: put/0/1 is missing\n")
	assert.Equal(t, "quorate-lab: 2 violations, the first: put/0/1 is missing\n", stderr)
}

func TestFaultsFailsWhenAWatchIsWrong(t *testing.T) {
	run := func(context.Context, faults.Config) (report.Report, error) {
		rep := report.Report{Rows: []report.Row{{Name: "healthy"}}, Watches: report.WatchCheck{Watches: 1, Events: 10}}
		rep.Watches.Add(watchcheck.Reliable, "2 events are missing").Evidence = []string{"response 7"}
		return rep, nil
	}
	status, stdout, stderr := execRoot(t.Context(), run, "faults")
	assert.Equal(t, cli.Negative, status)
	assert.Contains(t, stdout, "1 VIOLATION:\n- watch, reliable: 2 events are missing\n    response 7\n")
	assert.Equal(t, "quorate-lab: violation: 2 events are missing\n", stderr)

	status, stdout, _ = execRoot(t.Context(), run, "faults", "--json")
	assert.Equal(t, cli.Negative, status)
	assert.Contains(t, stdout, `"promise": "reliable"`)
}

func TestFaultsReportsFailure(t *testing.T) {
	run := func(context.Context, faults.Config) (report.Report, error) {
		return report.Report{Failure: "no disk"}, errors.New("start the cluster: no disk")
	}
	status, stdout, stderr := execRoot(t.Context(), run, "faults")
	assert.Equal(t, cli.Failure, status)
	assert.Empty(t, stdout, "no table without figures")
	assert.Equal(t, "quorate-lab: start the cluster: no disk\n", stderr)

	status, stdout, _ = execRoot(t.Context(), run, "faults", "--json")
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stdout, `"failure": "no disk"`)
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

// TestFaultsEndsOnCtrlC runs the program itself and interrupts it.
func TestFaultsEndsOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	cmd, out := program(t, "quorate-lab", dir, "faults", "--fault", "kill", "--duration", "1m")
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
	for _, want := range []string{"healthy ", "\nkill ", "The run was ended early.", "all are there at the end"} {
		assert.Contains(t, table.String(), want)
	}
	assertNothingLeft(t, dir)
}

func TestAFaultThatIsNamedAloneHasItsOwnLength(t *testing.T) {
	var seen faults.Config
	run := func(ctx context.Context, cfg faults.Config) (report.Report, error) {
		seen = cfg
		return fakeExperiment(asItIs)(ctx, cfg)
	}
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
		status, _, stderr := execRoot(t.Context(), run, append([]string{"faults"}, tt.args...)...)
		require.Equal(t, cli.OK, status, stderr)
		assert.Equal(t, tt.want, seen.Hold, tt.args)
	}
	status, _, stderr := execRoot(t.Context(), run, "faults", "--pause", "1s", "--ttl", "5s", "--election", "1s")
	require.Equal(t, cli.OK, status, stderr)
	assert.Equal(t, []time.Duration{time.Second, 5 * time.Second, time.Second}, []time.Duration{seen.Pause, seen.LeaseTTL, seen.Election})
}
