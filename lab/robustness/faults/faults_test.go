//go:build experiment

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/faults"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// quick is a configuration with short spells. When the test ends, nothing of
// its clusters may be left: no file, no process, no goroutine that listens. Their ports
// may be those of another program by then.
func quick(t *testing.T, names ...string) faults.Config {
	t.Helper()
	chosen := []fault.Fault{}
	if len(names) > 0 {
		var err error
		chosen, err = fault.Parse(names)
		require.NoError(t, err)
	}
	dir, already := t.TempDir(), goleak.IgnoreCurrent()
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		assert.NoError(t, err)
		assert.Empty(t, entries, "files left behind")
		_, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		assert.ErrorIs(t, err, syscall.ECHILD, "processes left behind")
		assert.NoError(t, robustness.Leaked(already))
	})
	return faults.Config{
		Config: robustness.Config{Seed: 1, Dir: dir, Log: t.Output()},
		Faults: chosen, Healthy: 3 * time.Second, Hold: 1500 * time.Millisecond, Recovery: 500 * time.Millisecond, Connect: quorate.Connect,
	}
}

// through puts something between the load and the client.
func through(cfg faults.Config, wrap func(*client.Connection)) faults.Config {
	connect := cfg.Connect
	cfg.Connect = func(to client.Target) (client.Connection, error) {
		conn, err := connect(to)
		wrap(&conn)
		return conn, err
	}
	return cfg
}

func TestRunMeasuresEveryRow(t *testing.T) {
	cfg := quick(t, "stop", "leader-kill")
	// A busy machine elects no other leader meanwhile. A lease outlives an election, and is renewed in any time that is longer
	// than its TTL, whatever else the machine does.
	cfg.Election, cfg.LeaseTTL, cfg.Healthy, cfg.Hold = 2*time.Second, 8*time.Second, 9*time.Second, 9*time.Second
	var log bytes.Buffer
	cfg.Log = io.MultiWriter(cfg.Log, &log)
	rep, err := faults.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, rep.Rows, 3)
	previous := rep.Rows[0].Start
	for i, name := range []string{"healthy", "stop", "leader-kill"} {
		row := rep.Rows[i]
		assert.Equal(t, name, row.Name)
		assert.Equal(t, previous, row.Start, name)
		previous = row.End
		assert.Positive(t, row.EventDelay, name)
		require.Len(t, row.Calls, 4)
		for kind, c := range row.Calls {
			assert.Positive(t, c.Completed, "%s, %s", name, kind)
		}
		if i > 0 {
			assert.Less(t, row.Start, row.Fault, name)
			assert.GreaterOrEqual(t, row.Heal-row.Fault, cfg.Hold, name)
		}
	}
	assert.Regexp(t, `(?s) stop: m\d, a follower\n.* stop: healing begins.* leader-kill: m\d, the leader\n.* leader-kill: healing begins`, log.String())
	assert.Zero(t, rep.Rows[0].Fault)
	assert.Positive(t, rep.Rows[1].Calls[model.SerializableGet].Held)
	assert.Zero(t, rep.Rows[0].LeasesLost)
	for kind, c := range rep.Rows[0].Calls {
		assert.Zero(t, c.Errors+c.Unknown, "no fault is charged to the healthy row: %s", kind)
	}
	assert.True(t, rep.Verdict.OK(), "%v", rep.Verdict)
	acknowledged := rep.Counts.Of("writes", "acknowledged")
	assert.Positive(t, acknowledged)
	assert.Positive(t, rep.Counts.Of("leases", "claims"))
	assert.Equal(t, 6, rep.Counts.Of("watches", "opened"), "none ended by itself")
	assert.Greater(t, rep.Counts.Of("watches", "events"), acknowledged, "two of them are on every key")
}

// spoiled is a client that sends some puts twice. After ten linearizable gets, all further ones return the revision of the first.
type spoiled struct {
	client.KV
	puts, gets atomic.Int64
	old        atomic.Int64 // revision
}

func (s *spoiled) Do(ctx context.Context, keys [model.Keys]string, request model.Request) (model.Response, error) {
	response, err := s.KV.Do(ctx, keys, request)
	switch {
	case err != nil:
	case request.Kind == model.Get:
		s.old.CompareAndSwap(0, response.Revision)
		if s.gets.Add(1) > 10 {
			response.Revision = s.old.Load()
		}
	case request.Kind == model.Put && s.puts.Add(1)%10 == 0: // as a client does that retries on a guess
		return s.KV.Do(ctx, keys, request)
	}
	return response, err
}

func TestRunFindsWhatCallsDoWrong(t *testing.T) {
	rep, err := faults.Run(t.Context(), through(quick(t), func(c *client.Connection) {
		c.KV = &spoiled{KV: c.KV}
	}))
	require.NoError(t, err, "a violation is a result, not a failure of the run")
	counts := rep.Verdict.Counts
	assert.Positive(t, counts[faults.WentBackwards], "a stale read")
	assert.Positive(t, counts[model.Linear], "a write applied twice")
	assert.Zero(t, counts[watchcheck.Reliable]+counts[watchcheck.Unique], "the watches are not to blame: %v", rep.Verdict)
}

// faultyWatcher is a watcher that swallows the 20th response of each watch, and after the
// 40th repeats the one before.
type faultyWatcher struct{ client.Watcher }

func (m faultyWatcher) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
	responses := m.Watcher.Watch(ctx, req)
	return func(yield func(history.WatchResponse) bool) {
		var previous history.WatchResponse
		n := 0
		for resp := range responses {
			if n++; n != 20 && !yield(resp) {
				return
			}
			if n == 40 && !yield(previous) {
				return
			}
			previous = resp
		}
	}
}

// faultyLessor is a lessor that keeps no lease alive, and claims that it does.
type faultyLessor struct{ client.Lessor }

func (faultyLessor) KeepAlive(ctx context.Context, _ int64) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		for ctx.Err() == nil && yield(time.Now().Add(time.Minute), nil) {
			_ = pause.For(ctx, 100*time.Millisecond)
		}
	}
}

func TestRunFindsWhatWatchesAndLeasesDoWrong(t *testing.T) {
	cfg := through(quick(t), func(c *client.Connection) { c.Watcher, c.Lessor = faultyWatcher{c.Watcher}, faultyLessor{c.Lessor} })
	cfg.Healthy = 10 * time.Second // longer than any lease lives
	rep, err := faults.Run(t.Context(), cfg)
	require.NoError(t, err)
	for _, p := range []robustness.Promise{faults.LeaseEndedEarly, watchcheck.Reliable, watchcheck.Unique} {
		assert.Positive(t, rep.Verdict.Counts[p], "%s: %v", p, rep.Verdict)
	}
	assert.Zero(t, rep.Verdict.Counts[model.Linear]+rep.Verdict.Counts[faults.WentBackwards], "the calls are not to blame: %v", rep.Verdict)
}

// failing is a KV whose calls fail.
type failing struct{ err error }

func (f failing) Do(context.Context, [model.Keys]string, model.Request) (model.Response, error) {
	return model.Response{}, f.err
}

func TestRunFails(t *testing.T) {
	boom := errors.New("boom")
	for want, damage := range map[string]func(*faults.Config){
		"start the cluster: ": func(cfg *faults.Config) { cfg.Dir = "/dev/null/nowhere" },
		"connect to the cluster: boom": func(cfg *faults.Config) {
			cfg.Connect = func(client.Target) (client.Connection, error) { return client.Connection{}, boom }
		},
		"the first call to the healthy cluster failed: boom": func(cfg *faults.Config) {
			*cfg = through(*cfg, func(c *client.Connection) { c.KV = failing{boom} })
		},
	} {
		t.Run(want, func(t *testing.T) {
			cfg := quick(t)
			damage(&cfg)
			rep, err := faults.Run(t.Context(), cfg)
			require.ErrorContains(t, err, want)
			assert.Contains(t, rep.Failure, want)
			assert.Empty(t, rep.Rows)
			assert.False(t, rep.Checked())
			assert.False(t, rep.Interrupted)
		})
	}
}

func TestEveryComparedClientMeetsTheFault(t *testing.T) {
	cfg := quick(t, "leader-kill")
	// A caller that waited for the old leader until its deadline has only the recovery to have a call completed in.
	cfg.CallTimeout, cfg.Recovery, cfg.Callers = 3*time.Second, 5*time.Second, 4
	var log bytes.Buffer
	cfg.Log = io.MultiWriter(cfg.Log, &log)
	reports, err := faults.Compare(t.Context(), cfg, faults.Clients(), faults.Run)
	require.NoError(t, err)
	require.Len(t, reports, 3)
	assert.Equal(t, 3, strings.Count(log.String(), ", the leader"))
	for i, id := range []string{"official", "official-tuned", faults.QuorateID} {
		rep := reports[i]
		assert.Equal(t, id, rep.ID)
		assert.False(t, rep.Interrupted)
		assert.Empty(t, rep.Failure, id)
		assert.True(t, rep.Verdict.OK(), "%s: %v", id, rep.Verdict)
		require.Len(t, rep.Rows, 2)
		row := rep.Rows[1]
		assert.GreaterOrEqual(t, row.Heal-row.Fault, cfg.Hold)
		for kind, c := range row.Calls {
			assert.Positive(t, c.Completed, kind)
		}
	}
}
