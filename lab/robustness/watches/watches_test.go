//go:build experiment

package watches

import (
	"context"
	"flag"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/official"
	"github.com/quorate/quorate/lab/robustness/history"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the runs")
	duration = flag.Duration("soak", 20*time.Second, "how long TestSoak injects faults")
)

// TestSoak is the short form of "quorate-lab soak".
func TestSoak(t *testing.T) {
	result, err := Run(t.Context(), Config{Config: robustness.Config{Duration: *duration, Seed: *seed, Dir: t.TempDir(), Log: t.Output()}})
	require.NoError(t, err)
	require.True(t, result.Verdict.OK(), "%v", result)
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
	assert.True(t, result.Verdict.OK(), "%v", result)
	assert.Positive(t, result.Delivered.Watches, "what was seen until then is checked")
}

var officialFor = flag.Duration("official", 0, "how long to run with the official client; 0 skips it")

// theirs is the official client.
type theirs struct {
	client.Watcher
	*clientv3.Client
}

func (c theirs) Watch(ctx context.Context, r history.WatchRequest) iter.Seq[history.WatchResponse] {
	return c.Watcher.Watch(ctx, r)
}

func (c theirs) Close() error { return c.Client.Close() }

// TestOfficial shows how the official client does under the same faults. What it
// breaks is no failure of ours.
func TestOfficial(t *testing.T) {
	if *officialFor == 0 {
		t.Skip("run it with -official 5m")
	}
	result, err := Run(t.Context(), Config{
		Config: robustness.Config{Duration: *officialFor, Seed: *seed, Dir: t.TempDir(), Log: t.Output()},
		Connect: func(endpoints []string) (Client, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()})
			return theirs{official.NewWatcher(c), c}, err
		},
	})
	require.NoError(t, err)
	t.Log("\n" + result.String())
}
