package faults

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

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
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

const second = time.Second

// example is a run of which almost every field has a value.
func example() Report {
	healthy := Row{Name: "healthy", End: 6 * second, EventDelay: 9 * ms, Calls: map[model.Kind]Calls{}}
	for i, k := range kinds {
		healthy.Calls[k] = Calls{Completed: 3000 + i, LongestGap: 41 * ms, Max: 23 * ms}
	}
	stop := Row{Name: "stop", Start: 6 * second, End: 21500 * ms, Fault: 6100 * ms, Heal: 12100 * ms, EventDelay: 6001 * ms, LeasesLost: 2}
	stop.Calls = map[model.Kind]Calls{
		model.Get:             {Completed: 1234567, Held: 2999, Errors: 12, LongestGap: 6 * second, Max: 10001 * ms},
		model.Put:             {Completed: 5, Held: 3, Errors: 1, Unknown: 11, LongestGap: 15500 * ms, Max: 10 * second},
		model.Txn:             {LongestGap: 15500 * ms},
		model.SerializableGet: {Completed: 1, LongestGap: 9 * second, Max: ms},
	}
	return Report{
		Client:  Client{ID: "c", Label: "Quorate", Description: "as it comes"},
		Setup:   "The cluster had 3 members.\n",
		Rows:    []Row{healthy, stop},
		Outcome: robustness.Outcome{Seed: 7, Members: 3, Duration: 21500 * ms, Counts: checked()},
	}
}

func checked() *robustness.Counts {
	counts := &robustness.Counts{}
	counts.Add("writes", "acknowledged", 6013)
	counts.Add("watches", "events", 24012)
	counts.Add("errors", "Unavailable", 12)
	return counts
}

// broken is the example with violations.
func broken() Report {
	r := example()
	r.Interrupted = true
	r.Verdict.Add("linearizable", `["/p/put/0/1" "/p/counter/0/1" "/p/txn/0/1"]: violated: 3 of 40 answers fit, and then client 12`)
	r.Verdict.Count("linearizable", 11)
	r.Verdict.Add("reliable", "watch 3 of /a from revision 2: it reached revision 40 and 3 events are missing, the first is put /a at revision 17").Evidence = []string{
		"response 7 at 1.000000s, header revision 40: 1 events, revisions 40 to 40",
	}
	return r
}

// compared are reports of three clients: one that met half of the faults, one with
// violations, and one that met both.
func compared() []Report {
	official, tuned, ours := broken(), example(), example()
	led := example().Rows[1]
	led.Name = "leader-kill"
	official.Client = Client{ID: "a", Label: "official", Description: "as it comes"}
	tuned.Client = Client{ID: "b", Label: "tuned", Description: "with keepalive"}
	tuned.Rows, ours.Rows = append(tuned.Rows, led), append(ours.Rows, led)
	ours.Failure = "the cluster was not ready 30s after leader-kill was healed"
	return []Report{official, tuned, ours}
}

func TestTable(t *testing.T) {
	failed := example()
	failed.Rows[1].Fault = 0 // its injection never began
	failed.Failure, failed.Duration = "the cluster was not ready 30s after kill was healed", 0
	for name, runs := range map[string][]Report{
		"comparison.txt": compared(), "table.txt": {example()}, "table_failed.txt": {failed}, "table_empty.txt": {},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, Table(&b, runs))
			golden(t, name, b.Bytes())
			for line := range strings.Lines(b.String()) {
				if !strings.Contains(line, ": ") {
					assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
				}
			}
		})
	}
	require.NoError(t, Table(io.Discard, make([]Report, 2)), "runs that never began")
}
