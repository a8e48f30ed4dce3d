package robustness

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/fault"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

// calls is a workload that notes what is called, and fails where it must.
type calls struct {
	fail   string
	called []string
}

func (c *calls) call(name string) error {
	c.called = append(c.called, name)
	if c.fail == name {
		return errors.New("no " + name)
	}
	return nil
}

func (c *calls) Start(_ context.Context, env *Env) error {
	for _, name := range []string{"close first", "close"} {
		env.Cleanup(func() error { return c.call(name) })
	}
	return c.call("start")
}

func (c *calls) Stop() error            { return c.call("stop") }
func (c *calls) Settle() error          { return c.call("settle") }
func (c *calls) Check(o *Outcome) error { o.Revisions = 7; return c.call("check") }

func complete(t *testing.T, cfg Config) Config {
	require.NoError(t, cfg.Complete().Err())
	return cfg
}

// TestWorkloadIsClosedWhateverFails runs workloads that fail in each of their parts.
func TestWorkloadIsClosedWhateverFails(t *testing.T) {
	for fail, want := range map[string][]string{
		"":         {"start", "schedule", "stop", "settle", "close", "close first", "check"},
		"start":    {"start", "close", "close first"},
		"schedule": {"start", "schedule", "stop", "close", "close first"},
		"stop":     {"start", "schedule", "stop", "close", "close first"},
		"settle":   {"start", "schedule", "stop", "settle", "close", "close first"},
		"close":    {"start", "schedule", "stop", "settle", "close", "close first"},
		"check":    {"start", "schedule", "stop", "settle", "close", "close first", "check"},
	} {
		t.Run("fails in "+fail, func(t *testing.T) {
			w := &calls{fail: fail}
			env := &Env{Log: NewLog(t.Output()), Config: Config{Duration: time.Minute}}
			var out Outcome
			err := env.work(t.Context(), Setup{Schedule: func(context.Context) error { return w.call("schedule") }}, w, &out)
			assert.Equal(t, want, w.called)
			if fail != "" {
				require.EqualError(t, err, "no "+fail)
				return
			}
			require.NoError(t, err)
			assert.Positive(t, out.Duration)
			assert.EqualValues(t, 7, out.Revisions)
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &calls{}
	out, err := Run(ctx, complete(t, Config{Dir: t.TempDir()}), Setup{}, w)
	require.NoError(t, err)
	assert.Empty(t, w.called)
	assert.True(t, out.Interrupted)
	assert.Equal(t, "nothing was checked\n", out.String())
}

// onLine calls a function when a line of the log is written.
type onLine struct {
	n     int
	wrote func()
}

func (l *onLine) Write(p []byte) (int, error) {
	if l.n--; l.n == 0 {
		l.wrote()
	}
	return len(p), nil
}

// TestRunEndsEarly ends a run when its first fault is injected, which is the second line of the log.
func TestRunEndsEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &calls{}
	out, err := Run(ctx, complete(t, Config{Duration: time.Hour, Dir: t.TempDir(), Log: &onLine{2, cancel}}), Setup{}, w)
	require.NoError(t, err)
	assert.True(t, out.Interrupted)
	assert.Len(t, out.Faults, 1)
	assert.Equal(t, []string{"start", "stop", "settle", "close", "close first", "check"}, w.called)
}

func TestOutcomeShowsTheEvidence(t *testing.T) {
	out := Outcome{
		Members: 3, Seed: 7, Duration: time.Minute, Revisions: 99, Counts: &Counts{},
		Tally: fault.Tally{Faults: map[string]int{"kill": 2, "all-killed": 1}, Cuts: 5},
	}
	out.Counts.Add("writes", "refused", 1)
	out.Counts.Add("writes", "refused", 1)
	out.Counts.Max("writes", "at a time", 4)
	out.Counts.Max("writes", "at a time", 3)
	out.Counts.Add("calls", "made", 5)
	assert.Equal(t, 2, out.Counts.Of("writes", "refused"))
	want := "3 members, seed 7, 1m0s\n" +
		"store                99 revisions\n" +
		"faults               all-killed 1, kill 2, not injected 0, connections cut 5\n" +
		"calls                made 5\n" +
		"writes               at a time 4, refused 2\n" +
		"verdict              "
	assert.Equal(t, want+"every promise was kept\n", out.String())
	for range 12 {
		v := out.Verdict.Add("unique", "put a was repeated")
		v.Evidence, v.Page = []string{"response 4"}, "page.html"
	}
	assert.Len(t, out.Verdict.Violations, 10)
	assert.Contains(t, out.String(), want+"12 violations\n  unique        12\n\nunique: put a was repeated\n    response 4\n    see page.html\n\n")
}
