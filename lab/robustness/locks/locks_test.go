//go:build experiment

package locks

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/lockcheck"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the runs")
	duration = flag.Duration("locks", 12*time.Second, "how long TestLocks injects faults at least")
)

// observedSession reports how guarded writes ended.
type observedSession struct {
	quorate.Session
	wrote func(accepted bool)
}

func (s observedSession) Handle(style lockcheck.Style, name string) client.Handle {
	return observedHandle{s.Session.Handle(style, name), s.wrote}
}

type observedHandle struct {
	client.Handle
	wrote func(accepted bool)
}

func (h observedHandle) Guard() client.Guard {
	g := h.Handle.Guard()
	write := g.Write
	g.Write = func(ctx context.Context, key, value string) (bool, int64, error) {
		accepted, revision, err := write(ctx, key, value)
		if err == nil {
			h.wrote(accepted)
		}
		return accepted, revision, err
	}
	return g
}

// TestLocks is the short form of "quorate-lab soak locks". On a machine that is short of CPU it may take longer until
// a contender writes that has lost the lock.
func TestLocks(t *testing.T) {
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	began := time.Now()
	var accepted, refused atomic.Bool
	wrote := func(ok bool) {
		if ok {
			accepted.Store(true)
		} else {
			refused.Store(true)
		}
		if accepted.Load() && refused.Load() && time.Since(began) >= *duration {
			enough()
		}
	}
	result, err := Run(ctx, Config{
		Config: robustness.Config{Duration: *duration + 3*time.Minute, Seed: *seed, Dir: t.TempDir(), Log: t.Output()},
		Connect: func(endpoints []string) (client.Locker, error) {
			sound, err := quorate.Locker(endpoints)
			if err != nil {
				return nil, err
			}
			same := func(ctx context.Context, ttl int) (context.Context, int) { return ctx, ttl }
			return faulty{sound.(quorate.LockClient), func(s quorate.Session) client.Session { return observedSession{s, wrote} }, same}, nil
		},
	})
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, result.Taken())
	assert.Positive(t, result.Writes.Accepted)
	assert.Positive(t, result.Writes.Refused, "nobody wrote who had lost the lock")
	t.Log("\n" + result.String())
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
	result, err := Run(ctx, Config{Config: robustness.Config{Duration: time.Hour, Seed: *seed, Dir: t.TempDir(), Log: log}})
	require.NoError(t, err)
	assert.True(t, result.Interrupted)
	assert.Len(t, result.Faults, 1)
	// On a machine that other tests keep busy sessions of 2 s do not last, and not all take a lock in the end.
	assert.Equal(t, result.Verdict.Counts[lockcheck.Live], result.Verdict.Total(), "%v", result)
	assert.Positive(t, result.Taken(), "what was done until then is checked")
}

var officialFor = flag.Duration("official", 0, "how long to run with the official client; 0 skips it")

// TestOfficial shows how the official client does under the same faults. What it
// breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	if *officialFor == 0 {
		t.Skip("run it with -official 5m")
	}
	result, err := Run(t.Context(), Config{
		Config:  robustness.Config{Duration: *officialFor, Seed: *seed, Dir: t.TempDir(), Log: t.Output()},
		Connect: official.Locker,
	})
	require.NoError(t, err)
	t.Log("\n" + result.String())
}
