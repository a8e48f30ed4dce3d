package lease

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/observe/introspect"
)

// The state of a lease outlives its last subscriber for as long as the lease certainly lives.
func TestLeaseIsRemembered(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(r *rig)
		known bool
	}{
		{"Once", func(r *rig) {
			r.once(1)
			r.take()
			r.answer(1, ttl)
		}, true},
		{"the keeper left", func(r *rig) { r.leave(r.renewed(1), context.Canceled) }, true},
		{"the keeper left before an answer", func(r *rig) {
			r.m.Granted(r.now, r.now, 1, int64(ttl/time.Second))
			p := r.keep(1)
			r.take()
			r.leave(p, context.Canceled)
			r.answer(1, ttl)
		}, true},
		{"lease not found", func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.take()
			r.answer(1, 0)
		}, false},
		{"revoked", func(r *rig) {
			r.renewed(1)
			r.m.Revoked(r.now, 1)
		}, false},
		{"revoked later", func(r *rig) {
			r.leave(r.renewed(1), context.Canceled)
			r.m.Revoked(r.now, 1)
		}, false},
		{"revoked with a request unanswered", func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.take()
			r.m.Revoked(r.now, 1)
			r.answer(1, ttl)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.connect()
			tt.after(r)
			require.Equal(t, Gone, r.state(1))
			until := r.epoch.Add(ttl)
			r.pass(time.Second)
			p := r.keep(1)
			if !tt.known {
				require.Zero(t, p.validUntil)
				require.Equal(t, r.m.now.add(firstAnswer), r.m.leases[1].deadline)
				return
			}
			require.Equal(t, until, p.validUntil)
			require.Equal(t, instant(ttl), r.m.leases[1].deadline)
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

// A lost stream keeps no reference to a lease that is gone.
func TestLostStreamForgetsItsLeases(t *testing.T) {
	r := newRig(t)
	p := r.keep(1)
	r.connect()
	r.take()
	r.m.Lost(r.now, errBroken)
	require.NotNil(t, r.m.oldest)
	r.leave(p, context.Canceled)
	require.Nil(t, r.m.oldest)

	r.keep(2)
	r.connect()
	r.take()
	r.m.Lost(r.now, errBroken)
	r.connect()
	require.Nil(t, r.m.oldest, "the earlier stream suspects no lease")
}

// A refusal that concerns more than one lease ends all Once subscribers at once.
func TestRefusalOfAll(t *testing.T) {
	for _, tt := range []struct {
		err error
		all bool
	}{
		{rpctypes.ErrGRPCPermissionDenied, false},
		{rpctypes.ErrGRPCAuthFailed, true},
		{status.Error(codes.Unauthenticated, "who are you?"), true},
	} {
		r := newRig(t)
		k := r.keep(1)
		r.connect()
		r.take()
		first, second := r.once(2), r.once(3)
		r.take()
		r.answer(1, ttl)
		r.m.Lost(r.now, tt.err)
		require.Contains(t, []int64{2, 3}, r.m.oldest.id)
		r.m.Refused(r.now, tt.err)
		r.check()
		require.Equal(t, tt.all, first.closed+second.closed == 2, tt.err)
		require.Zero(t, k.closed)
	}
}

// The pause during an outage is bounded by the remaining TTL, and has a minimum.
func TestPause(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ttl   time.Duration
		left  time.Duration
		drawn float64
		want  time.Duration
	}{
		{"much is left", time.Minute, 40 * time.Second, 0, 10 * time.Second},
		{"much is left, at the latest", time.Minute, 40 * time.Second, 1, 15 * time.Second},
		{"little is left", time.Minute, time.Millisecond, 0, time.Minute / 32},
		{"little is left, at the latest", time.Minute, time.Millisecond, 1, time.Minute / 32 * 3 / 2},
		{"little is left of 6 s", 6 * time.Second, time.Millisecond, 0, minPause},
		{"little is left of 1 s", time.Second, time.Millisecond, 0, time.Second / 8},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				r := newRig(t)
				r.keep(2) // has more time
				r.connect()
				r.take()
				r.answer(2, time.Hour)
				r.keep(1)
				r.take()
				r.answer(1, tt.ttl)
				r.now = r.now.Add(tt.ttl - tt.left)
				if !waits {
					r.pass(0)
				}
				r.m.Lost(r.now, errBroken)
				r.drawn = tt.drawn
				require.Equal(t, tt.want, r.m.Pause(r.now))
			})
		}
	}
}

// requireOrdered checks the heap order, and that each lease knows its index.
func requireOrdered(t testing.TB, q queue) {
	t.Helper()
	for i, l := range q {
		require.EqualValues(t, i, l.index)
		require.LessOrEqual(t, q[(max(i, 1)-1)/2].when, l.when)
	}
}

func TestQueue(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var q queue
		held := map[*entry]instant{}
		for range 300 {
			if len(held) == 0 || r.IntN(5) < 3 {
				l, when := &entry{}, instant(r.IntN(40))
				q.push(l, when)
				held[l] = when
			} else {
				l := q[r.IntN(len(q))]
				q.remove(l)
				delete(held, l)
			}
			require.Len(t, q, len(held))
			requireOrdered(t, q)
		}
		var order []instant
		for l, when := q.next(); l != nil; l, when = q.next() {
			require.Equal(t, held[l], when)
			order = append(order, when)
			q.remove(l)
		}
		require.Len(t, order, len(held))
		require.True(t, slices.IsSorted(order))
	}
	_, when := queue(nil).next()
	require.Equal(t, never, when)
}
