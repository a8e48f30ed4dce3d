//go:build experiment

package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/measure"
	"github.com/quorate/quorate/lab/robustness/scenario"
)

// A fault of a member, or of the majority, fails no call but writes whose outcome is unknown, and loses no lease. Calls, watches
// and leases are checked against the history of the store.
func TestAFaultOfAMemberIsSurvived(t *testing.T) {
	t.Run("follower", func(t *testing.T) {
		for _, row := range under(t, leaseTTL, "kill", "stop", "blackhole", "partition", "slow", "defrag") {
			requireGoesOn(t, row)
			assert.Empty(t, row.Moments, "%s: another leader", row.Name)
			requireUnknown(t, row, callers)
		}
	})
	t.Run("leader", func(t *testing.T) {
		for _, row := range under(t, leaseTTL, "leader-move", "leader-blackhole", "leader-kill", "leader-partition") {
			requireGoesOn(t, row)
			// Clients that cannot reach a leader who goes on leading see the fault of one member.
			assert.Equal(t, row.Name != "leader-blackhole", len(row.Moments) > 0, "%s: another leader", row.Name)
		}
	})
	// When it wakes, it can revoke what ran out by its clock, for others renewed it: https://github.com/etcd-io/etcd/issues/15247.
	t.Run("leader that wakes", func(t *testing.T) {
		for _, row := range under(t, time.Minute, "leader-stop") {
			requireGoesOn(t, row)
			assert.NotEmpty(t, row.Moments, "another leader")
		}
	})
	t.Run("majority", func(t *testing.T) {
		for _, row := range under(t, time.Minute, "majority-lost") {
			requireGoesOn(t, row)
			assert.NotEmpty(t, row.Moments, "another leader")
		}
	})
	// Members that are asked to end, as in an upgrade, tell their clients so. Of the puts only those are lost that are under
	// way when leadership is handed over: a leader that is about to end drops what followers forward to it, without an error.
	t.Run("every member in turn", func(t *testing.T) {
		for _, row := range under(t, leaseTTL, "rolling-restart") {
			requireGoesOn(t, row)
			requireUnknown(t, row, len(row.Moments)*callers)
		}
	})
}

const (
	callers = 4
	// hold is how long a fault is in force, and leaseTTL no longer, so that a lease which is not renewed meanwhile ends.
	hold     = 4 * time.Second
	leaseTTL = 4 * time.Second
)

// under runs gets, puts, watches and leases under faults, one after the other, and returns the row of each.
func under(t *testing.T, ttl time.Duration, names ...string) []measure.Row {
	t.Helper()
	t.Parallel()
	faults, err := fault.Parse(names)
	require.NoError(t, err)
	rep, err := scenario.Run(t.Context(), scenario.Config{
		Faults: faults, Callers: callers, Hold: hold, LeaseTTL: ttl, Healthy: 2 * time.Second, Dir: t.TempDir(),
	})
	require.NoError(t, err)
	assert.True(t, rep.OK(), "%v %v", rep.Verdict, rep.Watches.Verdict)
	require.Len(t, rep.Rows, 1+len(faults))
	return rep.Rows[1:]
}

// requireGoesOn checks what callers saw of a fault, and logs how long they waited.
func requireGoesOn(t *testing.T, row measure.Row) {
	t.Helper()
	t.Logf("%s: longest gap of gets %v, slowest get %v, slowest put %v, writes past the links seen after %v; leases %+v", row.Name,
		row.Kinds[history.LinearizableGet].LongestGap, row.Kinds[history.LinearizableGet].Max, row.Kinds[history.Put].Max, row.OutsideDelay, row.Leases)
	for _, kind := range history.Kinds() {
		stats := row.Kinds[kind]
		assert.Positive(t, stats.Held, "%s: no %s was completed under the fault", row.Name, kind)
		assert.Zero(t, stats.Errors, "%s: %s: %v", row.Name, kind, stats.Codes)
	}
	assert.Zero(t, row.Watches.Undelivered, row.Name)
	if row.OutsideDelay < leaseTTL*2/3 { // no client can keep a lease on a machine that is slower than that
		assert.Zero(t, row.Leases.Expired, row.Name)
	}
}

// requireUnknown checks how many writes were lost at the victim: those that were in flight there.
func requireUnknown(t *testing.T, row measure.Row, most int) {
	t.Helper()
	for _, kind := range history.Kinds() {
		assert.LessOrEqual(t, row.Kinds[kind].Unknown, int64(most), "%s: %s", row.Name, kind)
	}
}
