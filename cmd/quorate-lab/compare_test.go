package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/faults"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

// fakeExperiment returns an experiment without a cluster; change gets its report and the
// number of the client, from 0.
func fakeExperiment(change func(client int, rep *report.Report) error) faults.Runner {
	client := -1
	return func(_ context.Context, cfg faults.Config) (report.Report, error) {
		client++
		const second = report.Duration(time.Second)
		rows := []report.Row{{Name: "healthy", End: second}}
		rows[0].Calls[history.LinearizableGet].Completed = 100
		for _, f := range cfg.Faults {
			row := report.Row{Name: f.Name, Start: 2 * second, Fault: 2 * second}
			row.Heal = row.Fault + report.Duration(cfg.Hold)
			row.End = row.Heal
			row.Calls[history.LinearizableGet].Held = int64(100 * cfg.Hold / time.Second)
			rows = append(rows, row)
		}
		rep := report.Report{Setup: report.Setup{Members: cfg.Members, Hold: report.Duration(cfg.Hold), Seed: cfg.Seed}, Rows: rows}
		return rep, change(client, &rep)
	}
}

func asItIs(int, *report.Report) error { return nil }

// seeing returns an experiment without a cluster that notes its configurations.
func seeing(seen *[]faults.Config) faults.Runner {
	fake := fakeExperiment(asItIs)
	return func(ctx context.Context, cfg faults.Config) (report.Report, error) {
		*seen = append(*seen, cfg)
		return fake(ctx, cfg)
	}
}

// violate breaks a guarantee.
func violate(rep *report.Report) {
	rep.Checked = &robustness.Counts{}
	rep.Add(faults.Linearizable, "put/0/1 is missing")
}

// compareWith runs "quorate-lab faults --compare" with further arguments.
func compareWith(t *testing.T, run faults.Runner, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return execRoot(t.Context(), run, append([]string{"faults", "--compare"}, args...)...)
}

func TestComparePrintsTheTable(t *testing.T) {
	var seen []faults.Config
	run := seeing(&seen)
	status, stdout, stderr := compareWith(t, run, "--seed", "9")
	require.Equal(t, cli.OK, status, stderr)
	require.Len(t, seen, 3)
	for _, cfg := range seen {
		assert.Equal(t, namesOf(faults.DefaultCompared()), namesOf(cfg.Faults))
		assert.Equal(t, faults.DefaultComparedHold, cfg.Hold)
		assert.EqualValues(t, 9, cfg.Seed)
	}
	for _, want := range []string{"leader-partition", "Official client, tuned", "100 %"} {
		assert.Contains(t, stdout, want)
	}
	assert.Contains(t, stdout, "GAP OF GETS")
	assert.Contains(t, stdout, "The seed was 9.")
	assert.Contains(t, stderr, "Quorate (3 of 3): ")
}

func TestCompareRounds(t *testing.T) {
	var seen []faults.Config
	status, stdout, stderr := compareWith(t, seeing(&seen), "--client", "quorate,official", "--rounds", "2", "--seed", "9")
	require.Equal(t, cli.OK, status, stderr)
	require.Len(t, seen, 4)
	for i, cfg := range seen {
		assert.EqualValues(t, 9+i/2, cfg.Seed, "the clients of a round have the same")
	}
	assert.Contains(t, stderr, "Official client (1 of 4)")
	assert.NotContains(t, stdout, "tuned")
}

func TestComparePrintsJSON(t *testing.T) {
	status, stdout, stderr := compareWith(t, fakeExperiment(asItIs), "--json", "--fault", "stop")
	require.Equal(t, cli.OK, status, stderr)
	var d struct {
		Clients []struct {
			ID     string
			Report struct{ Rows []struct{ Name string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &d))
	require.Len(t, d.Clients, 3)
	assert.Equal(t, faults.QuorateID, d.Clients[2].ID)
	assert.Equal(t, "stop", d.Clients[2].Report.Rows[1].Name)
}

func TestCompareChecksQuorateOnly(t *testing.T) {
	status, stdout, stderr := compareWith(t, fakeExperiment(func(client int, rep *report.Report) error {
		if client == 0 {
			violate(rep)
		}
		return nil
	}))
	assert.Equal(t, cli.OK, status, stderr)
	assert.Contains(t, stdout, "put/0/1 is missing")

	status, _, stderr = compareWith(t, fakeExperiment(func(client int, rep *report.Report) error {
		if client == 2 {
			violate(rep)
		}
		return nil
	}))
	assert.Equal(t, cli.Negative, status)
	assert.Contains(t, stderr, "quorate-lab: violation: put/0/1 is missing\n")
}

func TestCompareReportsFailure(t *testing.T) {
	status, stdout, stderr := compareWith(t, fakeExperiment(func(client int, rep *report.Report) error {
		if client == 1 {
			rep.Failure = "no disk"
			return errors.New("start the cluster: no disk")
		}
		return nil
	}))
	assert.Equal(t, cli.Failure, status)
	assert.Contains(t, stderr, "quorate-lab: Official client, tuned: start the cluster: no disk\n")
	assert.Contains(t, stdout, "The run could not go on: no disk")
}

func TestCompareEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	run := fakeExperiment(func(_ int, rep *report.Report) error {
		cancel(cli.SignalError{Signal: syscall.SIGINT})
		rep.Interrupted = true
		return nil
	})
	status, stdout, stderr := execRoot(ctx, run, "faults", "--compare")
	assert.Equal(t, 128+int(syscall.SIGINT), status)
	assert.Contains(t, stdout, "The comparison was ended early.")
	assert.Contains(t, stderr, "Official client (1 of 3)")
	assert.NotContains(t, stderr, "(2 of 3)")
}

func TestFaultsIdempotent(t *testing.T) {
	for _, once := range []bool{false, true} {
		var seen []faults.Config
		run := seeing(&seen)
		flag := fmt.Sprintf("--idempotent=%v", once)
		status, _, stderr := compareWith(t, run, flag)
		require.Equal(t, cli.OK, status, stderr)
		status, _, stderr = execRoot(t.Context(), run, "faults", flag)
		require.Equal(t, cli.OK, status, stderr)
		var writes []bool // of each run: whether they are idempotent
		for _, cfg := range seen {
			writes = append(writes, reflect.ValueOf(cfg.Connect).Pointer() == reflect.ValueOf(quorate.Idempotent).Pointer())
		}
		assert.Equal(t, []bool{false, false, once, once}, writes)
	}
}
