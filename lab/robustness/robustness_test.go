package robustness

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Verify(m) }

// TestClose closes in the reverse order, once, whatever fails.
func TestClose(t *testing.T) {
	var closed []string
	var env Env
	for _, name := range []string{"first", "second"} {
		env.Cleanup(func() error {
			closed = append(closed, name)
			return errors.New("no " + name)
		})
	}
	require.EqualError(t, env.Close(), "no second\nno first")
	require.NoError(t, env.Close())
	assert.Equal(t, []string{"second", "first"}, closed)
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := Run(ctx, Config{Dir: t.TempDir()}, lab.Config{}, func(context.Context, *Env) { panic("there is no cluster") })
	require.NoError(t, err)
	assert.True(t, out.Interrupted)
	assert.Equal(t, "nothing was checked\n", out.String())
}

// TestWorkloadFails closes what a workload has opened. What it has found counts, and nothing else.
func TestWorkloadFails(t *testing.T) {
	t.Parallel()
	for _, violations := range []int{0, 1} {
		closed, failure := false, errors.New("no page")
		out, err := Run(t.Context(), Config{Dir: t.TempDir()}, lab.Config{}, func(_ context.Context, env *Env) {
			env.Cleanup(func() error { closed = true; return nil })
			for range violations {
				env.Verdict.Add("unique", "put a was repeated")
			}
			fatal.If(failure)
		})
		require.ErrorIs(t, err, failure)
		assert.True(t, closed)
		assert.Equal(t, violations > 0, out.Checked())
	}
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
	out, err := Run(ctx, Config{Duration: time.Hour, Dir: t.TempDir(), Log: &onLine{2, cancel}}, lab.Config{}, func(ctx context.Context, env *Env) {
		err := env.InjectFaults(ctx)
		require.Error(t, ctx.Err(), "the context of the workload ends with the faults")
		fatal.If(err)
	})
	require.NoError(t, err)
	assert.True(t, out.Interrupted)
	assert.Contains(t, out.String(), "\nfaults ")
	assert.True(t, out.Checked())
}

func TestOutcomeShowsTheEvidence(t *testing.T) {
	out := Outcome{
		Members: 3, Seed: 7, Duration: time.Minute, Counts: &Counts{},
	}
	out.Counts.Add("writes", "refused", 1)
	out.Counts.Add("writes", "refused", 1)
	out.Counts.Max("writes", "at a time", 4)
	out.Counts.Max("writes", "at a time", 3)
	out.Counts.Add("calls", "made", 5)
	assert.Equal(t, 2, out.Counts.Of("writes", "refused"))
	want := "3 members, seed 7, 1m0s\n" +
		"calls                made 5\n" +
		"writes               at a time 4, refused 2\n" +
		"verdict              "
	assert.Equal(t, want+"every promise was kept\n", out.String())
	for range 12 {
		v := out.Verdict.Add("unique", "put a was repeated")
		v.Evidence = []string{"response 4"}
	}
	assert.Len(t, out.Verdict.Violations, 10)
	assert.Contains(t, out.String(), want+"not every promise was kept; violations:\n  unique        12\n\nVIOLATION of unique: put a was repeated\n    response 4\n\n")
}
