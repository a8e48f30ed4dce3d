package report_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/tally"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	assert.Empty(t, cmp.Diff(string(want), string(got)))
}

const (
	ms     = report.Duration(time.Millisecond)
	second = report.Duration(time.Second)
)

// example is a run of which almost every field has a value.
func example() report.Report {
	healthy := report.Row{Name: "healthy", End: 6 * second}
	for i, k := range history.Kinds() {
		healthy.Calls[k] = report.Calls{
			Kind: k, Completed: int64(3000 + i), LongestGap: 41 * ms, P50: 840 * ms / 1000, P99: 8410 * ms / 1000, Max: 23 * ms,
		}
	}
	healthy.Events, healthy.EventDelay = 12006, 9*ms
	stop := report.Row{Name: "stop", Start: 6 * second, End: 21500 * ms, Events: 1234567, EventDelay: 6001 * ms, LeasesLost: 2}
	stop.Calls[history.LinearizableGet] = report.Calls{
		Completed: 1234567, Errors: 12, LongestGap: 6 * second, P50: 1234 * ms / 1000, P99: 10 * second, Max: 10001 * ms,
	}
	stop.Calls[history.Put] = report.Calls{
		Completed: 5, Errors: 1, Unknown: 11, LongestGap: 15500 * ms, P50: 5 * second, P99: 10 * second, Max: 10 * second,
	}
	stop.Calls[history.Txn] = report.Calls{LongestGap: 15500 * ms}
	stop.Calls[history.SerializableGet] = report.Calls{Completed: 1, LongestGap: 9 * second, P50: ms, P99: ms, Max: ms}
	for _, k := range history.Kinds() {
		stop.Calls[k].Kind = k
	}
	return report.Report{
		Setup: report.Setup{
			Members: 3, Callers: 6, Pause: 5 * ms, CallTimeout: 10 * second, Hold: 6 * second,
			LeaseTTL: 3 * second, Seed: 7,
		},
		Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Duration: 21500 * ms,
		Rows: []report.Row{healthy, stop},
		Errors: report.Errors{
			"DeadlineExceeded":      {Count: 23, Sample: "context deadline exceeded"},
			"Unavailable":           {Count: 1, Sample: "rpc error: code = Unavailable desc = connection refused"},
			"watch Unavailable":     {Count: 1, Sample: "etcdserver: no leader"},
			"lease keepalive ended": {Count: 2, Sample: "no answer within the TTL"},
			"lease key gone":        {Count: 1},
		},
		Checked: checked(),
	}
}

func checked() *tally.Counts {
	counts := &tally.Counts{}
	counts.Add("writes", "acknowledged", 6013)
	counts.Add("watches", "events", 24012)
	return counts
}

// broken is the example with violations.
func broken() report.Report {
	r := example()
	r.Interrupted = true
	r.Add("linearizable", `["/p/put/0/1" "/p/counter/0/1" "/p/txn/0/1"]: violated: 3 of 40 answers fit, and then client 12`)
	r.Count("linearizable", 11)
	r.Add("reliable", "watch 3 of /a from revision 2: it reached revision 40 and 3 events are missing, the first is put /a at revision 17").Evidence = []string{
		"response 7 at 1.000000s, header revision 40: 1 events, revisions 40 to 40",
	}
	return r
}

func TestJSON(t *testing.T) {
	for name, r := range map[string]report.Report{
		"report.json": example(), "report_violations.json": broken(),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, report.JSON(&b, r))
			golden(t, name, b.Bytes())
		})
	}
}

// compared is a comparison of three clients: one that met half of the faults, one with
// violations, and one that met both.
func compared() report.Comparison {
	fault := func(name string) report.Row {
		row := example().Rows[1]
		row.Name, row.Fault, row.Heal = name, 6100*ms, 12100*ms
		row.Calls[history.LinearizableGet].Held, row.Calls[history.Put].Held = 2999, 3
		return row
	}
	led := fault("leader-kill")
	led.OutsideDelay = 1200 * ms
	official, tuned, ours := broken(), example(), example()
	official.Rows[1] = fault("stop")
	tuned.Rows = append(tuned.Rows[:1], fault("stop"), led)
	ours.Rows = append(ours.Rows[:1], fault("stop"), led)
	ours.Failure = "the cluster was not ready 30s after leader-kill was healed"
	return report.Comparison{Interrupted: true, Runs: []report.ClientRun{
		{Client: report.Client{ID: "a", Label: "official", Name: "Official client", Description: "as it comes"}, Report: official},
		{Client: report.Client{ID: "b", Label: "tuned", Name: "Official client, tuned", Description: "with keepalive"}, Report: tuned},
		{Client: report.Client{ID: "c", Label: "Quorate", Name: "Quorate", Description: "as it comes"}, Report: ours},
	}}
}

func TestTable(t *testing.T) {
	single, failed := example(), example()
	single.Rows[1].Fault, single.Rows[1].Heal = 6100*ms, 12100*ms
	failed.Failure, failed.Checked = "the cluster was not ready 30s after kill was healed", nil
	one := func(r report.Report) report.Comparison {
		return report.Comparison{Runs: []report.ClientRun{{Client: report.Client{ID: "c", Label: "Quorate", Name: "Quorate", Description: "as it comes"}, Report: r}}}
	}
	for name, c := range map[string]report.Comparison{
		"comparison.txt": compared(), "table.txt": one(single), "table_failed.txt": one(failed), "table_empty.txt": {},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, report.Table(&b, c))
			golden(t, name, b.Bytes())
			for line := range strings.Lines(b.String()) {
				if !strings.Contains(line, ": ") {
					assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
				}
			}
		})
	}
	rounds := compared()
	for _, gap := range []report.Duration{7 * ms, 3 * ms} {
		again := compared()
		for _, run := range again.Runs {
			run.Report.Rows[1].Calls[history.Put].LongestGap = gap
		}
		rounds.Runs = append(rounds.Runs, again.Runs...)
	}
	var b bytes.Buffer
	require.NoError(t, report.Table(&b, rounds))
	assert.Regexp(t, "stop +official +9 s +7 ms +15.5 s", b.String(), "the median of the gaps of puts")
	require.NoError(t, report.Table(io.Discard, report.Comparison{Runs: make([]report.ClientRun, 2)}), "runs that never began")
}
