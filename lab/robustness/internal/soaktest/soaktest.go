// Package soaktest has what the experiments with soaks share.
package soaktest

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/quorate/quorate/lab/robustness"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the runs")
	duration = flag.Duration("soak", 12*time.Second, "how long faults are injected at least")
)

// extraTime is how much longer a run goes on until enough is counted. A machine that is short of CPU takes longer.
const extraTime = 3 * time.Minute

// Fixed is a run of the least duration.
func Fixed(t *testing.T) robustness.Config {
	return robustness.Config{Duration: *duration, Seed: *seed, Dir: t.TempDir(), Log: t.Output(), Counts: &robustness.Counts{}}
}

// Short is a run of the least duration, and longer until enough is counted.
func Short(t *testing.T, enough func(*robustness.Counts) bool) (context.Context, robustness.Config) {
	began := time.Now()
	return Until(t, func(c *robustness.Counts) bool { return time.Since(began) >= *duration && enough(c) })
}

// Until is a run that ends when enough is counted.
func Until(t *testing.T, enough func(*robustness.Counts) bool) (context.Context, robustness.Config) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cfg := Fixed(t)
	cfg.Duration += extraTime
	go func() {
		for ctx.Err() == nil && !enough(cfg.Counts) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	return ctx, cfg
}
