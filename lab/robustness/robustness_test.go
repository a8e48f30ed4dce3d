package robustness_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/limits"
	"github.com/quorate/quorate/lab/robustness"
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

func (c *calls) Start(context.Context, *robustness.Env) error { return c.call("start") }
func (c *calls) Stop() error                                  { return c.call("stop") }
func (c *calls) Settle() error                                { return c.call("settle") }
func (c *calls) Close() error                                 { return c.call("close") }
func (c *calls) Check(o *robustness.Outcome) error            { o.Revisions = 7; return c.call("check") }

// TestWorkloadIsClosedWhateverFails runs workloads that fail in each of their parts.
func TestWorkloadIsClosedWhateverFails(t *testing.T) {
	for fail, want := range map[string][]string{
		"":       {"start", "stop", "settle", "close", "check"},
		"start":  {"start", "close"},
		"stop":   {"start", "stop", "close"},
		"settle": {"start", "stop", "settle", "close"},
		"close":  {"start", "stop", "settle", "close"},
		"check":  {"start", "stop", "settle", "close", "check"},
	} {
		t.Run("fails in "+fail, func(t *testing.T) {
			t.Parallel()
			cfg := robustness.Config{Duration: time.Millisecond, Dir: t.TempDir(), Log: t.Output()}
			var check limits.Check
			cfg.Complete(&check)
			require.NoError(t, check.Err())
			w := &calls{fail: fail}
			out, err := robustness.Run(t.Context(), cfg, robustness.Setup{}, w)
			assert.Equal(t, want, w.called)
			if fail != "" {
				require.EqualError(t, err, "no "+fail)
				return
			}
			require.NoError(t, err)
			assert.False(t, out.Interrupted)
			assert.Positive(t, out.Duration)
			assert.EqualValues(t, 7, out.Revisions)
		})
	}
}
