//go:build experiment

package linear

import (
	"context"
	"flag"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the runs")
	duration = flag.Duration("linear", 15*time.Second, "how long TestLinear injects faults")
)

// enoughOperations have some of every kind and outcome among them.
const enoughOperations = 1500

// untilEnough is a log that ends the run after its time, when there were enough operations, and writes that shared an RPC: of
// 300 writes two do. A machine that is short of CPU takes longer for them.
type untilEnough struct {
	io.Writer
	began time.Time
	end   context.CancelFunc
}

func (u untilEnough) Write(p []byte) (int, error) {
	var at string
	var n, grouped int
	read, _ := fmt.Sscanf(string(p), "%s %d operations, %d writes grouped;", &at, &n, &grouped)
	if read == 3 && n >= enoughOperations && grouped > 0 && time.Since(u.began) >= *duration {
		u.end()
	}
	return u.Writer.Write(p)
}

// TestLinear is the short form of "quorate-lab soak linear".
func TestLinear(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := untilEnough{t.Output(), time.Now(), cancel}
	result, err := Run(ctx, Config{Config: robustness.Config{Duration: *duration + 3*time.Minute, Seed: *seed, Dir: t.TempDir(), Log: log}, PageDir: t.ArtifactDir()})
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	t.Log("\n" + result.String())
	for kind, n := range result.Operations {
		assert.Positive(t, n[model.Answered], "no answer to a %v", model.Kind(kind))
	}
	assert.Positive(t, result.Refused, "no comparison was in vain")
	assert.Positive(t, result.Grouped, "no writes shared an RPC")
	assert.Positive(t, result.FromMemory, "no get was answered from memory")
	assert.Positive(t, result.Sum(true, model.Failed), "no write was refused")
	assert.Positive(t, result.Sum(true, model.Unknown), "no outcome was unknown")
}

// lines calls a function with the number of each write.
type lines struct {
	n     int
	wrote func(n int)
}

func (l *lines) Write(p []byte) (int, error) {
	l.n++
	l.wrote(l.n)
	return len(p), nil
}

// TestRunEndsEarly ends a run when its first fault is injected, which is the second
// line of the log.
func TestRunEndsEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &lines{wrote: func(n int) {
		if n == 2 {
			cancel()
		}
	}}
	result, err := Run(ctx, Config{Config: robustness.Config{Duration: time.Hour, Seed: *seed, Dir: t.TempDir(), Log: log}, PageDir: t.ArtifactDir()})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Len(t, result.Faults, 1)
	assert.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, result.Groups, "what was done until then is checked")
}
