package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/faults"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// execFaults runs "quorate-lab faults" without a cluster, and returns the configurations of its runs. change gets the report of
// each run and its number, from 0.
func execFaults(ctx context.Context, change func(n int, rep *faults.Report) error, args ...string) (seen []faults.Config, status int, stdout, stderr string) {
	run := func(_ context.Context, cfg faults.Config) (faults.Report, error) {
		seen = append(seen, cfg)
		rows := []faults.Row{{Name: "healthy", End: time.Second, Calls: map[model.Kind]faults.Calls{model.Get: {Completed: 100}}}}
		for _, f := range cfg.Faults {
			healed := 2*time.Second + cfg.Hold
			calls := map[model.Kind]faults.Calls{model.Get: {Held: int(100 * cfg.Hold / time.Second)}}
			rows = append(rows, faults.Row{Name: f.Name, Start: 2 * time.Second, Fault: 2 * time.Second, Heal: healed, End: healed, Calls: calls})
		}
		rep := faults.Report{Setup: fmt.Sprintf("The seed was %d.\n", cfg.Seed), Rows: rows, Outcome: robustness.Outcome{Duration: time.Minute}}
		return rep, change(len(seen)-1, &rep)
	}
	status, stdout, stderr = execRoot(ctx, run, append([]string{"faults"}, args...)...)
	return seen, status, stdout, stderr
}

func asItIs(int, *faults.Report) error { return nil }

func TestFaultsFlags(t *testing.T) {
	// flags are the parts of a configuration that flags set.
	type flags struct {
		faults                     []string
		hold, pause, ttl, election time.Duration
		members, callers           int
		seed                       uint64
	}
	usual := flags{
		faults.DefaultCompared, faults.DefaultComparedHold, faults.DefaultPause, faults.DefaultLeaseTTL,
		lab.DefaultElection, robustness.DefaultMembers, faults.DefaultCallers, 9,
	}
	held := func(name string, hold time.Duration) flags {
		f := usual
		f.faults, f.hold = strings.Split(name, ","), hold
		return f
	}
	for args, want := range map[string][]flags{
		"--compare":                               {usual, usual, usual},
		"--compare --client quorate,official":     {usual, usual},
		"--compare --client quorate --fault stop": {held("stop", faults.DefaultComparedHold)},
		"--compare --client quorate --fault flap": {held("flap", 18*time.Second)}, // its own, since it is named alone
		"--fault flap":                            {held("flap", 18*time.Second)},
		"--fault flap,stop":                       {held("flap,stop", faults.DefaultHold)},
		"--fault flap --duration 3s":              {held("flap", 3*time.Second)},
		"--fault slow --duration 1s --callers 2 --pause 1s --ttl 6s --election 2s --members 5": {
			{[]string{"slow"}, time.Second, time.Second, 6 * time.Second, 2 * time.Second, 5, 2, 9},
		},
	} {
		t.Run(args, func(t *testing.T) {
			seen, status, _, stderr := execFaults(t.Context(), asItIs, append(strings.Fields(args), "--seed", "9")...)
			require.Equal(t, cli.OK, status, stderr)
			var got []flags
			for _, cfg := range seen {
				got = append(got, flags{
					fault.Names(cfg.Faults), cfg.Hold, cfg.Pause, cfg.LeaseTTL, cfg.Election, cfg.Members, cfg.Callers, cfg.Seed,
				})
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestFaultsIdempotent(t *testing.T) {
	for _, once := range []bool{false, true} {
		var writes []bool // of each run: whether they are idempotent
		for _, args := range [][]string{{"--compare"}, nil} {
			seen, status, _, stderr := execFaults(t.Context(), asItIs, append(args, fmt.Sprintf("--idempotent=%v", once))...)
			require.Equal(t, cli.OK, status, stderr)
			for _, cfg := range seen {
				writes = append(writes, reflect.ValueOf(cfg.Connect).Pointer() == reflect.ValueOf(quorate.Idempotent).Pointer())
			}
		}
		assert.Equal(t, []bool{false, false, once, once}, writes)
	}
}

func TestFaultsExitStatus(t *testing.T) {
	violates := func(violations ...string) func(*faults.Report) error {
		return func(rep *faults.Report) error {
			for _, v := range violations {
				rep.Verdict.Add(watchcheck.Reliable, "%s", v).Evidence = []string{"response 7"}
			}
			return nil
		}
	}
	fails := func(rep *faults.Report) error {
		*rep = faults.Report{Failure: "no disk"}
		return errors.New("start the cluster: no disk")
	}
	for _, tt := range []struct {
		name           string
		args           []string
		run            int // the one that changes its report
		change         func(*faults.Report) error
		status         int
		stdout, stderr []string
	}{
		{name: "good", args: []string{"--seed", "9"}, stdout: []string{"healthy", "The seed was 9."}},
		{
			name: "violations", change: violates("one is missing", "another one"), status: cli.Negative,
			stdout: []string{"VIOLATION of reliable: one is missing\n    response 7\n"}, stderr: []string{"quorate-lab: 2 violations\n"},
		},
		{name: "failure", change: fails, status: cli.Failure, stderr: []string{"quorate-lab: Quorate: start the cluster: no disk\n"}},
		{
			name: "comparison", args: []string{"--compare", "--seed", "9"},
			stdout: []string{"leader-partition", "tuned, keepalive", "100 %", "GAP OF GETS", "The seed was 9."}, stderr: []string{"Quorate (3 of 3): "},
		},
		{
			name: "violations of the official client", args: []string{"--compare"}, change: violates("one is missing"),
			stdout: []string{"one is missing"},
		},
		{
			name: "violations of Quorate", args: []string{"--compare"}, run: 2, change: violates("one is missing"), status: cli.Negative,
			stderr: []string{"quorate-lab: 1 violation\n"},
		},
		{
			name: "failure of a comparison", args: []string{"--compare"}, run: 1, change: fails, status: cli.Failure,
			stdout: []string{"The run could not go on: no disk"}, stderr: []string{"quorate-lab: tuned: start the cluster: no disk\n"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, status, stdout, stderr := execFaults(t.Context(), func(n int, rep *faults.Report) error {
				if n == tt.run && tt.change != nil {
					return tt.change(rep)
				}
				return nil
			}, tt.args...)
			assert.Equal(t, tt.status, status, stderr)
			assert.Equal(t, tt.name == "failure", stdout == "", "no table without figures")
			for _, want := range tt.stdout {
				assert.Contains(t, stdout, want)
			}
			for _, want := range tt.stderr {
				assert.Contains(t, stderr, want)
			}
		})
	}
}

func TestCompareEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	seen, status, stdout, stderr := execFaults(ctx, func(_ int, rep *faults.Report) error {
		cancel(cli.SignalError(syscall.SIGINT))
		rep.Interrupted = true
		return nil
	}, "--compare")
	assert.Len(t, seen, 1)
	assert.Equal(t, 128+int(syscall.SIGINT), status, stderr)
	assert.Contains(t, stdout, "The run was ended early.")
}

// TestFaultsEndsOnCtrlC runs the program itself and interrupts it. It prints what was measured until then, and leaves no file.
func TestFaultsEndsOnCtrlC(t *testing.T) {
	dir := t.TempDir()
	cmd, out := program(t, "quorate-lab", dir, "faults", "--fault", "kill", "--duration", "1m", "--seed", "3")
	progress, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for log := bufio.NewScanner(progress); !strings.Contains(log.Text(), "is killed"); {
		require.True(t, log.Scan(), "the program ended before the fault")
	}
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
	assert.Regexp(t, `(?m)^ *healthy +Quorate +- +- +[0-9.]+ m?s`, table.String())
	assert.Regexp(t, `(?m)^ *kill +Quorate +[0-9]+ % +[0-9]+ % +[0-9.]+ m?s`, table.String())
	assert.Regexp(t, `(?m)^ *kill +Quorate( +[0-9.]+ m?s){5}$`, table.String(), "events were delivered")
	requireEmpty(t, dir)
}
