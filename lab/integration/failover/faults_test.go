//go:build experiment

package failover_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/lab/robustness/faults"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// A fault of a member, or of the majority, fails no call but writes whose outcome is unknown, and loses no lease. Calls, watches
// and leases are checked against the history of the store.
func TestAFaultOfAMemberIsSurvived(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    faults.Config
		faults []string
	}{
		// A busy machine elects no other leader meanwhile.
		"leader stays": {faults.Config{LeaseTTL: leaseTTL, Election: 2 * time.Second}, []string{"kill", "stop", "blackhole", "partition", "slow", "defrag", unreachable}},
		"leader":       {faults.Config{LeaseTTL: leaseTTL}, []string{"leader-move", "leader-kill", "leader-partition"}},
		// When it wakes, it can revoke what ran out by its clock, for others renewed it: https://github.com/etcd-io/etcd/issues/15247.
		"leader that wakes": {faults.Config{LeaseTTL: time.Minute}, []string{"leader-stop"}},
		// Calls wait for the majority, which a busy machine restores late. A call that waits for the last member, too, fails: it is
		// back after the call's deadline.
		"majority": {faults.Config{LeaseTTL: time.Minute, CallTimeout: 5 * hold, Hold: 6 * hold}, []string{"majority-lost"}},
		// Members that are asked to end, as in an upgrade, tell their clients so. Of the puts only those are lost that are under
		// way when leadership is handed over: a leader that is about to end drops what followers forward to it, without an error.
		"every member in turn": {faults.Config{LeaseTTL: leaseTTL}, []string{"rolling-restart"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var terms *int
			if name == "every member in turn" {
				terms = countTerms(t, &test.cfg)
			}
			for _, row := range under(t, test.cfg, test.faults...) {
				requireGoesOn(t, row)
				if terms != nil {
					requireUnknown(t, row, *terms*callers)
				} else if name == "leader stays" && row.Name != unreachable {
					requireUnknown(t, row, callers)
				}
			}
		})
	}
}

const (
	// unreachable is the fault of a leader that clients cannot reach and that goes on leading: they see the fault of one member.
	unreachable = "leader-blackhole"

	callers = 4
	// hold is how long a fault is in force, and leaseTTL no longer, so that a lease which is not renewed meanwhile ends.
	hold     = 6 * time.Second
	leaseTTL = 6 * time.Second
)

// under runs gets, puts, watches and leases under faults, one after the other, and returns the row of each.
func under(t *testing.T, cfg faults.Config, names ...string) []faults.Row {
	t.Helper()
	injected, err := fault.Parse(names)
	require.NoError(t, err)
	cfg.Faults, cfg.Callers, cfg.Healthy, cfg.Dir = injected, callers, 2*time.Second, t.TempDir()
	cfg.Hold = cmp.Or(cfg.Hold, hold)
	rep, err := faults.Run(t.Context(), cfg)
	require.NoError(t, err)
	assert.True(t, rep.Verdict.OK(), "%v", rep.Verdict)
	require.Len(t, rep.Rows, 1+len(injected))
	return rep.Rows[1:]
}

// countTerms returns how many terms of Raft a run of the configuration began, once it has ended.
func countTerms(t *testing.T, cfg *faults.Config) *int {
	t.Helper()
	begun := new(int)
	cfg.Connect = func(to client.Target) (client.Connection, error) {
		c := labtest.Client(t, clientv3.Config{Endpoints: to.Endpoints})
		term := func() int {
			status, err := c.Status(labtest.Context(t), to.Endpoints[0])
			require.NoError(t, err)
			return int(status.RaftTerm)
		}
		before := term()
		conn, err := quorate.Connect(to)
		end := conn.Close
		conn.Close = func() error { *begun = term() - before; return end() }
		return conn, err
	}
	return begun
}

// requireGoesOn checks what callers saw of a fault, and logs how long they waited.
func requireGoesOn(t *testing.T, row faults.Row) {
	t.Helper()
	t.Logf("%s: longest gap of gets %v, slowest get %v, slowest put %v; leases lost %d", row.Name,
		row.Calls[model.Get].LongestGap, row.Calls[model.Get].Max, row.Calls[model.Put].Max, row.LeasesLost)
	for kind, stats := range row.Calls {
		assert.Positive(t, stats.Held, "%s: no %s was completed under the fault", row.Name, kind)
		assert.Zero(t, stats.Errors, "%s: %s", row.Name, kind)
	}
	if row.Calls[model.Get].LongestGap < leaseTTL/3 { // no client can keep a lease on a machine that is slower than that
		assert.Zero(t, row.LeasesLost, row.Name)
	}
}

// requireUnknown checks how many writes were lost at the victim: those that were in flight there.
func requireUnknown(t *testing.T, row faults.Row, most int) {
	t.Helper()
	for kind, stats := range row.Calls {
		assert.LessOrEqual(t, stats.Unknown, most, "%s: %s", row.Name, kind)
	}
}
