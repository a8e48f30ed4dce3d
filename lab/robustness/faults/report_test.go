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
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

const ms = time.Millisecond

// rows returns rows that begin at the given moments and end where the next begins; the last moment is the end.
func rows(moments ...time.Duration) []Row {
	out := make([]Row, len(moments)-1)
	for i := range out {
		out[i].Start, out[i].End = (moments[i] * ms), (moments[i+1] * ms)
	}
	return out
}

// took returns a put, from start to end.
func took(start, end time.Duration, o history.Outcome) call {
	c := call{Operation: model.Operation{Request: model.Request{Kind: model.Put}, Call: start * ms, Return: end * ms, Outcome: o}}
	c.Response.Succeeded = o == history.OK
	return c
}

func TestCallsBelongToTheRowTheyStartedIn(t *testing.T) {
	got := measure(rows(10, 100, 200), []call{
		took(0, 1, history.OK), // before the first row
		took(20, 30, history.OK),
		took(110, 130, history.Failed),
		took(90, 190, history.Unknown),
		took(210, 220, history.OK), // behind the last row
		took(150, 250, history.OK),
	}, nil, nil)
	healthy, stop := got[0].Calls[model.Put], got[1].Calls[model.Put]
	assert.Equal(t, []int{1, 0, 1}, []int{healthy.Completed, healthy.Errors, healthy.Unknown})
	assert.Equal(t, (100 * ms), healthy.Max)
	assert.Equal(t, []int{1, 1, 0}, []int{stop.Completed, stop.Errors, stop.Unknown})
}

func TestLongestGap(t *testing.T) {
	for name, tt := range map[string]struct {
		calls []call
		want  time.Duration
	}{
		"no calls at all":  {nil, 100},
		"at the beginning": {[]call{took(70, 75, history.OK), took(76, 99, history.OK)}, 75},
		"in the middle":    {[]call{took(0, 10, history.OK), took(0, 90, history.OK)}, 80},
		"at the end":       {[]call{took(0, 10, history.OK), took(0, 15, history.OK)}, 85},
		"errors do not end it": {[]call{
			took(0, 10, history.OK), took(20, 50, history.Failed), took(20, 60, history.Unknown),
		}, 90},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, (tt.want * ms), measure(rows(0, 100), tt.calls, nil, nil)[0].Calls[model.Put].LongestGap)
		})
	}
}

func TestGapBelongsToTheRowItHappenedIn(t *testing.T) {
	got := measure(rows(0, 100, 130), []call{took(50, 110, history.OK)}, nil, nil)
	stop, healed := got[0].Calls[model.Put], got[1].Calls[model.Put]
	assert.Equal(t, []time.Duration{(100 * ms), (20 * ms)}, []time.Duration{stop.LongestGap, healed.LongestGap})
	assert.Equal(t, []int{1, 0}, []int{stop.Completed, healed.Completed})
}

func TestWhatHappensUnderTheFault(t *testing.T) {
	rows := rows(10, 70)
	rows[0].Fault, rows[0].Heal = (20 * ms), (40 * ms)
	got := measure(rows, []call{
		took(11, 15, history.OK), took(18, 22, history.OK), took(18, 23, history.Failed), took(25, 35, history.OK), took(25, 45, history.OK),
	}, nil, nil)
	assert.Equal(t, 2, got[0].Calls[model.Put].Held)
	rows[0].Heal = 0
	assert.Equal(t, rows[0].End, measure(rows, nil, nil, nil)[0].Heal, "a fault that is not healed lasts as long as its row")
}

func TestLostLeases(t *testing.T) {
	got := measure(rows(0, 10, 20), nil, nil, []*lease{{lost: 12 * ms}, {}, {lost: 21 * ms}})
	assert.Equal(t, []int{0, 1}, []int{got[0].LeasesLost, got[1].LeasesLost})
}

func TestDelayCountsFromTheAcknowledgement(t *testing.T) {
	for name, tt := range map[string]struct {
		ended   time.Duration
		outcome history.Outcome
		applied bool
		taken   time.Duration
		want    time.Duration
	}{
		"after it":                    {20, history.OK, true, 27, 7},
		"before it":                   {20, history.OK, true, 15, 0},
		"an unknown outcome has none": {20, history.Unknown, true, 27, 0},
		"a txn that was not applied":  {20, history.OK, false, 27, 0},
		"in a later row":              {120, history.OK, true, 150, 30},
	} {
		t.Run(name, func(t *testing.T) {
			c := took(10, tt.ended, tt.outcome)
			c.Response.Succeeded = tt.applied
			c.Request.Then = []model.Act{{Verb: model.Write, Key: 1, Value: "v"}}
			response := history.WatchResponse{At: tt.taken * ms, Events: []history.Event{
				{KeyValue: history.KeyValue{Key: "/k", Value: "of another"}}, {KeyValue: history.KeyValue{Key: "/k", Value: "v"}},
			}}
			got := measure(rows(0, 100, 200), []call{c}, []history.Watch{{Responses: []history.WatchResponse{response}}}, nil)
			assert.Equal(t, tt.want*ms, got[0].EventDelay)
			assert.Zero(t, got[1].EventDelay)
		})
	}
}

func TestDurationInTables(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 840 * time.Microsecond: "0.84 ms", 9996 * time.Microsecond: "10 ms", 100 * time.Millisecond: "100 ms",
		999600 * time.Microsecond: "1 s", 12345 * time.Millisecond: "12.3 s", 123 * time.Second: "123 s",
	} {
		assert.Equal(t, want, duration(d), d.String())
	}
}

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
