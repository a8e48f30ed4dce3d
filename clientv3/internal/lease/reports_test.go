package lease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// renewal sends the due requests, and answers that of lease 1 after the given time.
func (r *rig) renewal(after time.Duration) (observe.LeaseRenewal, bool) {
	r.t.Helper()
	require.Equal(r.t, []int64{1}, r.take())
	r.now = r.now.Add(after)
	return r.m.Answered(r.now, &pb.LeaseKeepAliveResponse{ID: 1, TTL: int64(ttl / time.Second)})
}

func TestMarginOfARenewal(t *testing.T) {
	r := newRig(t)
	r.keep(1)
	r.connect()
	_, known := r.renewal(time.Second)
	require.False(t, known, "the lease was unknown")

	r.pass(ttl/3 - time.Second)
	got, known := r.renewal(2 * time.Second)
	require.True(t, known)
	require.Equal(t, observe.LeaseRenewal{ID: 1, Margin: ttl*2/3 - 2*time.Second, TTL: ttl}, got, "the margin counts from the send time of the first request")

	r.pass(ttl/3 - 2*time.Second)
	require.Equal(t, []int64{1}, r.take())
	r.m.Lost(r.now, errBroken)
	r.pass(time.Second)
	r.connect()
	got, known = r.renewal(ttl * 2 / 3)
	require.True(t, known)
	require.Equal(t, -time.Second, got.Margin, "the answer came after the known expiry, and proves that the lease lives")
}

func TestLostLeases(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(r *rig)
		want error
	}{
		"lease not found": {func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.take()
			r.answer(1, 0)
		}, rpctypes.ErrLeaseNotFound},
		"expired": {func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.pass(ttl)
		}, ErrUnanswered},
		"expired on a broken stream": {func(r *rig) {
			r.renewed(1)
			r.m.Lost(r.now, errBroken)
			r.pass(ttl / 3)
			r.pass(ttl)
		}, errBroken},
		"one loss for two keepers": {func(r *rig) {
			r.renewed(1)
			r.keep(1)
			r.pass(ttl / 3)
			r.pass(ttl)
		}, ErrUnanswered},
		"Once": {func(r *rig) {
			r.once(1)
			r.connect()
			r.take()
			r.answer(1, 0)
		}, nil},
		"revoked": {func(r *rig) {
			r.renewed(1)
			r.m.Revoked(r.now, 1)
		}, nil},
		"its keeper left": {func(r *rig) { r.leave(r.renewed(1), context.Canceled) }, nil},
		"the engine is closed": {func(r *rig) {
			r.renewed(1)
			r.m.Close(context.Canceled)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tt.do(r)
			lost := r.m.TakeLost()
			if tt.want == nil {
				require.Empty(t, lost)
				return
			}
			require.Len(t, lost, 1)
			require.EqualValues(t, 1, lost[0].ID)
			require.ErrorIs(t, lost[0].Err, tt.want)
			require.Empty(t, r.m.TakeLost(), "each loss is reported once")
		})
	}
}

// A report formats only the leases that it shows.
func TestInspect(t *testing.T) {
	r := newRig(t)
	for id := range int64(1000) {
		r.keep(id + 1)
	}
	r.connect()
	r.take()
	r.answer(500, ttl)
	r.answer(900, ttl/2)
	engines := []*Engine{{machine: r.m}}
	var shown introspect.Leases
	allocs := testing.AllocsPerRun(1, func() {
		shown = introspect.Leases{}
		Inspect(engines, introspect.Options{Limit: 3}, &shown)
	})
	require.Less(t, allocs, 100.)
	require.Equal(t, 1000, shown.KeptAlive)
	require.Equal(t, 998, shown.Unanswered)
	require.Len(t, shown.Shortest, 3)
	require.Equal(t, "384", shown.Shortest[0].ID)
	require.Equal(t, "1f4", shown.Shortest[1].ID)
	require.Equal(t, introspect.Lease{ID: "1", Unanswered: true}, shown.Shortest[2])
}
