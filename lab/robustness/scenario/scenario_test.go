//go:build experiment

package scenario_test

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness/callcheck"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
	"github.com/quorate/quorate/lab/robustness/report"
	"github.com/quorate/quorate/lab/robustness/scenario"
	"github.com/quorate/quorate/lab/robustness/watchcheck"
)

// quick is a configuration with short spells. When the test ends, nothing of
// its clusters may be left: no file, no process, no listening port.
func quick(t *testing.T, faults ...string) scenario.Config {
	t.Helper()
	chosen := []fault.Fault{}
	for _, name := range faults {
		parsed, err := fault.Parse([]string{name})
		require.NoError(t, err)
		chosen = append(chosen, parsed...)
	}
	dir := t.TempDir()
	var endpoints []string
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		assert.NoError(t, err)
		assert.Empty(t, entries, "files left behind")
		_, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		assert.ErrorIs(t, err, syscall.ECHILD, "processes left behind")
		for _, e := range endpoints {
			u, err := url.Parse(e)
			assert.NoError(t, err)
			_, err = net.DialTimeout("tcp", u.Host, time.Second)
			assert.Error(t, err, "port left behind: %s", e)
		}
	})
	return scenario.Config{
		Faults: chosen, Healthy: time.Second, Hold: 1500 * time.Millisecond, Recovery: 500 * time.Millisecond,
		Seed: 1, Dir: dir,
		Connect: func(to client.Target) (client.Connection, error) {
			endpoints = to.Endpoints
			return quorate.Connect(to)
		},
	}
}

// through puts a store between the load and the client.
func through(cfg scenario.Config, wrap func(client.Store) client.Store) scenario.Config {
	connect := cfg.Connect
	cfg.Connect = func(to client.Target) (client.Connection, error) {
		conn, err := connect(to)
		conn.Store = wrap(conn.Store)
		return conn, err
	}
	return cfg
}

func TestRunMeasuresEveryRow(t *testing.T) {
	cfg := quick(t, "stop", "leader-kill")
	// A lease that lives is renewed in any time that is longer than its TTL, whatever else the machine does.
	cfg.Healthy, cfg.Hold = 4*time.Second, 4*time.Second
	shown := 0
	cfg.Progress = func(report.Snapshot) { shown++ }
	rep, err := scenario.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, rep.Rows, 3)
	var previous time.Duration
	for i, name := range []string{"healthy", "stop", "leader-kill"} {
		row := rep.Rows[i]
		assert.Equal(t, name, row.Name)
		assert.False(t, row.Open)
		assert.LessOrEqual(t, previous, row.Start)
		previous = row.End
		assert.Positive(t, row.Watches.Delivered, name)
		assert.Zero(t, row.Watches.Undelivered, name)
		assert.LessOrEqual(t, row.Watches.DelayP50, row.Watches.DelayP99, name)
		assert.LessOrEqual(t, row.Watches.DelayP99, row.Watches.DelayMax, name)
		assert.Positive(t, row.OutsideDelay, name)
		assert.Positive(t, row.Leases.Renewals, name)
		for _, k := range history.Kinds() {
			assert.Positive(t, row.Kinds[k].Completed, "%s, %s", name, k)
			assert.Positive(t, row.Kinds[k].P50)
			assert.LessOrEqual(t, row.Kinds[k].P50, row.Kinds[k].P99)
			assert.LessOrEqual(t, row.Kinds[k].P99, row.Kinds[k].Max)
		}
		if i > 0 {
			assert.GreaterOrEqual(t, row.End-row.Start, 2*time.Second)
			assert.Len(t, row.Notes, 4+len(row.Moments), "injected, a new leader, healing, ready, calls ended: %v", row.Notes)
			assert.Less(t, row.Start, row.Fault.From, name)
			assert.GreaterOrEqual(t, row.Fault.To-row.Fault.From, cfg.Hold, name)
		}
	}
	assert.Zero(t, rep.Rows[0].Fault)
	assert.Empty(t, rep.Rows[0].Moments)
	assert.Zero(t, rep.Rows[0].Kinds[history.SerializableGet].Held)
	assert.Positive(t, rep.Rows[1].Kinds[history.SerializableGet].Held)
	assert.Empty(t, rep.Rows[1].Moments, "a follower that is stopped costs no leader")
	requireNewLeader(t, rep.Rows[2])
	assert.Positive(t, rep.LeaseLooks)
	assert.EqualValues(t, 6, rep.Rows[0].Leases.Kept)
	assert.Zero(t, rep.Rows[0].Leases.Expired)
	healthy := rep.Rows[0].Kinds
	for _, k := range history.Kinds() {
		assert.Zero(t, healthy[k].Errors+healthy[k].Unknown, "no fault is charged to the healthy row: %s", k)
	}
	assert.Greater(t, rep.Rows[1].Kinds[history.Put].Max, 100*time.Millisecond, "a put met the stopped member")
	assert.True(t, rep.Verdict.OK(), "%+v", rep.Verdict.Violations)
	assert.True(t, rep.Verdict.Audited)
	assert.Positive(t, rep.Verdict.AcknowledgedWrites)
	assert.True(t, rep.OK(), "%+v", rep.Watches.Verdict.Violations)
	assert.EqualValues(t, 6, rep.Watches.Verdict.Watches, "none ended by itself")
	assert.Greater(t, rep.Watches.Verdict.Events, rep.Verdict.AcknowledgedWrites, "two of them are on every key")
	assert.Equal(t, rep.Verdict.AuditRevision, rep.Watches.Through)
	assert.Equal(t, report.Setup{
		Members: 3, Callers: 6, Pause: 5 * time.Millisecond, CallTimeout: 10 * time.Second, Hold: cfg.Hold,
		LeaseTTL: 3 * time.Second, Seed: 1,
	}, rep.Setup)
	assert.Greater(t, shown, 10)
}

// requireNewLeader checks that a new leader was reported in a row, and what went on
// after that.
func requireNewLeader(t *testing.T, row measure.Row) {
	t.Helper()
	require.NotEmpty(t, row.Moments)
	m := row.Moments[0]
	assert.Regexp(t, "^m[123]$", m.Leader)
	assert.Regexp(t, "^m[123]$", m.Reporter)
	assert.Greater(t, m.At, row.Fault.From)
	assert.Less(t, m.At, row.End)
	for what, r := range map[string]measure.Resumption{"gets": m.Gets, "puts": m.Puts, "watches": m.Watches} {
		assert.Equal(t, 6, r.Callers, what)
		assert.Positive(t, r.Last, what)
	}
}

// runUntil runs the load alone until something is seen in it.
func runUntil(t *testing.T, cfg scenario.Config, seen func(report.Snapshot) bool) report.Report {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Healthy = time.Minute
	cfg.Progress = func(s report.Snapshot) {
		if seen(s) {
			cancel()
		}
	}
	rep, err := scenario.Run(ctx, cfg)
	require.NoError(t, err, "a violation is a result, not a failure of the run")
	require.True(t, rep.Interrupted, "was not seen within a minute")
	return rep
}

// puts returns a condition of runUntil: so many puts were completed.
func puts(n int64) func(report.Snapshot) bool {
	return func(s report.Snapshot) bool {
		return len(s.Rows) > 0 && s.Rows[0].Kinds[history.Put].Completed >= n
	}
}

// staleStore is a store whose linearizable gets see a state that is seconds old. The
// first ten tell the truth.
type staleStore struct {
	client.Store
	gets atomic.Int64
	old  atomic.Pointer[client.Answer]
}

func (l *staleStore) Get(ctx context.Context, key string, serializable bool) (client.Answer, error) {
	a, err := l.Store.Get(ctx, key, serializable)
	if err != nil || serializable {
		return a, err
	}
	l.old.CompareAndSwap(nil, &a)
	if l.gets.Add(1) > 10 {
		a.Revision = l.old.Load().Revision
	}
	return a, nil
}

// dropper acknowledges every fiftieth put without making it.
type dropper struct {
	client.Store
	puts atomic.Int64
}

func (d *dropper) Put(ctx context.Context, key, value string) (int64, error) {
	if d.puts.Add(1)%50 != 0 {
		return d.Store.Put(ctx, key, value)
	}
	a, err := d.Get(ctx, key, false)
	return a.Revision, err
}

// meddler is a watcher that swallows the 20th response of each watch, and after the
// 40th repeats the one before.
type meddler struct{ client.Watcher }

func (m meddler) Watch(ctx context.Context, req history.WatchRequest) iter.Seq[history.WatchResponse] {
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

// boaster is a lessor that keeps no lease alive, and claims that it does.
type boaster struct{ client.Lessor }

func (boaster) KeepAlive(ctx context.Context, _ int64) iter.Seq2[time.Time, error] {
	return func(yield func(time.Time, error) bool) {
		for ctx.Err() == nil && yield(time.Now().Add(time.Minute), nil) {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func TestRunFindsWhatWatchesAndLeasesDoWrong(t *testing.T) {
	cfg := quick(t)
	connect := cfg.Connect
	cfg.Connect = func(to client.Target) (client.Connection, error) {
		conn, err := connect(to)
		conn.Watcher, conn.Lessor = meddler{conn.Watcher}, boaster{conn.Lessor}
		return conn, err
	}
	rep := runUntil(t, cfg, func(s report.Snapshot) bool {
		return s.Violations > 0 && s.Rows[0].Watches.Delivered > 1000
	})
	assert.False(t, rep.OK())
	early := rep.Verdict.Counts[report.LeaseEndedEarly]
	require.Positive(t, early)
	assert.Equal(t, early, rep.Verdict.Total(), "the calls are not to blame: %+v", rep.Verdict.Violations)
	for _, v := range rep.Verdict.Violations {
		assert.Len(t, v.Evidence, 2, "the claim and the read: %+v", v)
	}
	found := rep.Watches.Verdict
	assert.Positive(t, found.Counts[watchcheck.Reliable], "%+v", found.Violations)
	assert.Positive(t, found.Counts[watchcheck.Unique], "%+v", found.Violations)
	assert.Positive(t, rep.Rows[0].Watches.Undelivered)
}

// repeater sends some puts twice, as a client does that retries on a guess.
type repeater struct {
	client.Store
	puts atomic.Int64
}

func (r *repeater) Put(ctx context.Context, key, value string) (int64, error) {
	revision, err := r.Store.Put(ctx, key, value)
	if err == nil && r.puts.Add(1)%10 == 0 {
		_, err = r.Store.Put(ctx, key, value)
	}
	return revision, err
}

func TestRunFindsWhatCallsDoWrong(t *testing.T) {
	cfg := through(quick(t), func(s client.Store) client.Store { return &staleStore{Store: &dropper{Store: &repeater{Store: s}}} })
	rep := runUntil(t, cfg, puts(200))
	counts := rep.Verdict.Counts
	assert.Positive(t, counts[callcheck.WentBackwards], "a stale read")
	assert.Positive(t, counts[callcheck.LostWrite], "a missing write")
	assert.Positive(t, counts[callcheck.AppliedTwice], "a write applied twice")
	for _, v := range rep.Verdict.Violations {
		if v.Promise == callcheck.WentBackwards {
			assert.NotEmpty(t, v.Evidence, "both observations: %+v", v)
		}
	}
	assert.True(t, rep.Watches.Verdict.OK(), "the watches are not to blame: %+v", rep.Watches.Verdict.Violations)
}

func TestRunWithoutWatchesAndLeases(t *testing.T) {
	cfg := quick(t)
	connect := cfg.Connect
	cfg.Connect = func(to client.Target) (client.Connection, error) {
		conn, err := connect(to)
		conn.Watcher, conn.Lessor = nil, nil
		return conn, err
	}
	rep := runUntil(t, cfg, puts(20))
	assert.True(t, rep.OK())
	assert.True(t, rep.Verdict.Audited)
	assert.Equal(t, report.WatchCheck{}, rep.Watches)
	assert.Equal(t, measure.WatchStats{}, rep.Rows[0].Watches)
	assert.Equal(t, measure.LeaseStats{}, rep.Rows[0].Leases)
}

func TestRunEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := quick(t, "kill", "stop")
	cfg.Hold = time.Minute
	var canceled time.Time
	cfg.Progress = func(s report.Snapshot) {
		if n := len(s.Rows); n == 2 && len(s.Rows[1].Notes) > 0 && ctx.Err() == nil {
			canceled = time.Now()
			cancel() // the member is dead or about to be
		}
	}
	rep, err := scenario.Run(ctx, cfg)
	require.NoError(t, err)
	assert.Less(t, time.Since(canceled), cfg.Hold)
	assert.True(t, rep.Interrupted)
	require.Len(t, rep.Rows, 2)
	assert.Positive(t, rep.Rows[0].Kinds[history.Put].Completed)
	assert.True(t, rep.Verdict.Audited)
	assert.True(t, rep.Verdict.OK())
}

func TestRunEndsBeforeItBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rep, err := scenario.Run(ctx, quick(t))
	require.NoError(t, err)
	assert.True(t, rep.Interrupted)
	assert.Empty(t, rep.Rows)
}

// failing is a store whose gets fail.
type failing struct {
	client.Store
	get error
}

func (f failing) Get(context.Context, string, bool) (client.Answer, error) {
	return client.Answer{}, f.get
}

func TestRunFails(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name   string
		damage func(*testing.T, scenario.Config) scenario.Config
		want   string
		rows   int
	}{
		{"no cluster", func(t *testing.T, cfg scenario.Config) scenario.Config {
			cfg.Dir = "/dev/null/nowhere"
			return cfg
		}, "start the cluster: ", 0},
		{"no connection", func(t *testing.T, cfg scenario.Config) scenario.Config {
			cfg.Connect = func(client.Target) (client.Connection, error) { return client.Connection{}, boom }
			return cfg
		}, "connect to the cluster: boom", 0},
		{"no first answer", func(t *testing.T, cfg scenario.Config) scenario.Config {
			return through(cfg, func(s client.Store) client.Store { return failing{s, boom} })
		}, "the first call to the healthy cluster failed: boom", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rep, err := scenario.Run(t.Context(), tt.damage(t, quick(t)))
			require.ErrorContains(t, err, tt.want)
			assert.Contains(t, rep.Failure, tt.want)
			assert.Len(t, rep.Rows, tt.rows)
			assert.False(t, rep.Verdict.Audited)
			assert.False(t, rep.Interrupted)
		})
	}
}
