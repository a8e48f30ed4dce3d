package lease

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errBroken = status.Error(codes.Unavailable, "the connection broke")

// setUps bring lease 1 into each state. Except in Gone and Abandoned it has a keeper that requires a leader.
var setUps = map[State]func(*rig){
	Gone: func(r *rig) { r.connect() },
	Due:  func(r *rig) { r.subscribe(1, Subscriber{RequireLeader: true}) },
	Awaiting: func(r *rig) {
		r.subscribe(1, Subscriber{RequireLeader: true})
		r.connect()
		r.take()
	},
	Repeating: func(r *rig) {
		r.subscribe(1, Subscriber{RequireLeader: true})
		r.connect()
		r.take()
		r.once(1)
	},
	Abandoned: func(r *rig) {
		p := r.keep(1)
		r.connect()
		r.take()
		r.leave(p, context.Canceled)
	},
	Waiting: func(r *rig) {
		r.subscribe(1, Subscriber{RequireLeader: true})
		r.connect()
		r.take()
		r.answer(1, ttl)
	},
}

var stateNames = map[State]string{
	Waiting: "Waiting", Due: "Due", Awaiting: "Awaiting", Repeating: "Repeating", Abandoned: "Abandoned", Gone: "Gone",
}

// TestTransitions checks the next state for each state and event.
func TestTransitions(t *testing.T) {
	for _, row := range []struct {
		event string
		do    func(*rig)
		to    map[State]State
	}{
		{
			"a keeper comes", func(r *rig) { r.keep(1) },
			map[State]State{Gone: Due, Waiting: Waiting, Due: Due, Awaiting: Awaiting, Repeating: Repeating, Abandoned: Repeating},
		},
		{
			"one caller wants one answer", func(r *rig) { r.once(1) },
			map[State]State{Gone: Due, Waiting: Due, Due: Due, Awaiting: Repeating, Repeating: Repeating, Abandoned: Repeating},
		},
		{
			"all callers leave", func(r *rig) {
				if l := r.m.leases[1]; l != nil {
					for _, s := range slices.Clone(l.subscribers) {
						r.m.Unsubscribe(r.now, s, context.Canceled)
					}
				}
			},
			map[State]State{Gone: Gone, Waiting: Gone, Due: Gone, Awaiting: Abandoned, Repeating: Abandoned, Abandoned: Abandoned},
		},
		{
			"it is sent", func(r *rig) {
				r.connect()
				r.take()
			},
			map[State]State{Gone: Gone, Waiting: Waiting, Due: Awaiting, Awaiting: Awaiting, Repeating: Repeating, Abandoned: Abandoned},
		},
		{
			"the answer: it lives", func(r *rig) { r.answer(1, ttl) },
			map[State]State{Gone: Gone, Waiting: Waiting, Due: Due, Awaiting: Waiting, Repeating: Due, Abandoned: Gone},
		},
		{
			"the answer: there is no such lease", func(r *rig) { r.answer(1, 0) },
			map[State]State{Gone: Gone, Waiting: Waiting, Due: Due, Awaiting: Gone, Repeating: Due, Abandoned: Gone},
		},
		{
			"a third of the TTL passes", func(r *rig) { r.pass(ttl / 3) },
			map[State]State{Gone: Gone, Waiting: Due, Due: Due, Awaiting: Awaiting, Repeating: Repeating, Abandoned: Abandoned},
		},
		{
			"the deadline passes", func(r *rig) { r.pass(ttl) },
			map[State]State{Gone: Gone, Waiting: Gone, Due: Gone, Awaiting: Abandoned, Repeating: Repeating, Abandoned: Abandoned},
		},
		{
			"the stream breaks", func(r *rig) { r.m.Lost(r.now, errBroken) },
			map[State]State{Gone: Gone, Waiting: Waiting, Due: Due, Awaiting: Due, Repeating: Due, Abandoned: Gone},
		},
		{
			"the server refuses the request", func(r *rig) { r.refuse(rpctypes.ErrGRPCPermissionDenied) },
			map[State]State{Gone: Gone, Waiting: Waiting, Due: Due, Awaiting: Waiting, Repeating: Waiting, Abandoned: Gone},
		},
		{
			"it is revoked", func(r *rig) { r.m.Revoked(r.now, 1) },
			map[State]State{Gone: Gone, Waiting: Gone, Due: Gone, Awaiting: Abandoned, Repeating: Abandoned, Abandoned: Abandoned},
		},
		{
			"no member knows a leader", func(r *rig) { r.m.Leaderless(r.now) },
			map[State]State{Gone: Gone, Waiting: Gone, Due: Gone, Awaiting: Abandoned, Repeating: Repeating, Abandoned: Abandoned},
		},
		{
			"the engine is closed", func(r *rig) { r.m.Close(context.Canceled) },
			map[State]State{Gone: Gone, Waiting: Gone, Due: Gone, Awaiting: Gone, Repeating: Gone, Abandoned: Gone},
		},
	} {
		require.Len(t, row.to, len(stateNames), row.event)
		for from, to := range row.to {
			t.Run(row.event+"/"+stateNames[from], func(t *testing.T) {
				r := newRig(t)
				setUps[from](r)
				require.Equal(t, from, r.state(1))
				r.check()
				row.do(r)
				require.Equal(t, stateNames[to], stateNames[r.state(1)])
				r.check()
			})
		}
	}
}

// A first answer that arrives after the time it proves does not end the lease, which may be alive; the next answer
// decides.
func TestAnswerAfterTheExpiry(t *testing.T) {
	r := newRig(t)
	p := r.keep(1)
	r.connect()
	r.take()
	r.pass(3 * time.Second)
	r.answer(1, 2*time.Second)
	require.Equal(t, r.now.Add(-time.Second), p.validUntil)
	r.pass(0)
	require.Zero(t, p.closed)
	require.Equal(t, []int64{1}, r.take())
	r.answer(1, 2*time.Second)
	require.Equal(t, r.now.Add(2*time.Second), p.validUntil)
	r.pass(2 * time.Second)
	require.Equal(t, 1, p.closed)
}

func TestTakeReturnsUpToItsLimit(t *testing.T) {
	r := newRig(t)
	for id := range int64(5) {
		r.keep(id)
	}
	r.connect()
	require.Len(t, r.takeUpTo(3), 3)
	require.True(t, r.m.Sendable())
	require.Len(t, r.takeUpTo(3), 2)
	require.False(t, r.m.Sendable())
}

func TestOnceIsNotAnsweredByAnEarlierRequest(t *testing.T) {
	r := newRig(t)
	k := r.keep(1)
	r.connect()
	r.take()
	o := r.once(1)
	r.answer(1, ttl)
	require.Len(t, k.ttls, 1)
	require.Empty(t, o.ttls)
	r.pass(time.Second)
	require.Equal(t, []int64{1}, r.take())
	r.answer(1, 30*time.Second)
	require.Equal(t, []int64{30}, o.ttls)
	require.Equal(t, 1, o.closed)
	require.NoError(t, o.cause)
	require.Zero(t, k.closed)
	require.Equal(t, []int64{60, 30}, k.ttls)
}

func TestOnceLeavesNoState(t *testing.T) {
	r := newRig(t)
	o := r.once(1)
	r.pass(time.Hour)
	require.Zero(t, o.closed, "only its context bounds it")
	r.connect()
	require.Equal(t, []int64{1}, r.take())
	r.answer(1, ttl)
	require.Equal(t, 1, o.closed)
	require.False(t, r.m.Wanted())
	_, ok := r.m.WakeAt()
	require.False(t, ok)

	o = r.once(1)
	r.take()
	r.answer(1, 0)
	require.Equal(t, []int64{0}, o.ttls)
	require.Equal(t, rpctypes.ErrLeaseNotFound, o.cause)
	require.False(t, r.m.Wanted())
}

func TestFirstAnswerDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		granted int64 // its TTL in seconds, 0 if unknown
		revoked bool
		lives   time.Duration
	}{
		"of an unknown lease":             {0, false, firstAnswer},
		"of a lease whose TTL is longer":  {600, false, 10 * time.Minute},
		"of a lease whose TTL is shorter": {2, false, firstAnswer},
		"of a lease that was revoked":     {600, true, firstAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.m.Granted(r.now, r.now, 1, tt.granted)
			if tt.revoked {
				r.m.Revoked(r.now, 1)
			}
			p := r.keep(1)
			r.pass(tt.lives - 1)
			require.Zero(t, p.closed)
			r.pass(1)
			require.Equal(t, 1, p.closed)
			require.Equal(t, ErrUnanswered, p.cause)
		})
	}
}

func TestGrantsAreForgotten(t *testing.T) {
	r := newRig(t)
	for id := range int64(3 * maxGrants) {
		r.m.Granted(r.now, r.now, id, 1)
		r.now = r.now.Add(time.Millisecond)
	}
	require.Less(t, len(r.m.grants.byID), 4000, "expired leases are forgotten")
	for id := range int64(3 * maxGrants) {
		r.m.Granted(r.now, r.now, id, math.MaxInt64)
	}
	require.LessOrEqual(t, len(r.m.grants.byID), maxGrants, "long leases are bounded by number")
	r.m.Granted(r.now, r.now, 7, 0)
	require.Positive(t, r.m.grants.take(3*maxGrants-1).ttl)
}

// The longest TTL must not overflow.
func TestEndlessTTL(t *testing.T) {
	for _, seconds := range []int64{9e9, math.MaxInt64} {
		r := newRig(t)
		p := r.keep(1)
		r.connect()
		r.take()
		r.m.Answered(r.now, answerOf(1, seconds))
		r.check()
		r.pass(24 * time.Hour)
		require.Empty(t, r.take())
		require.Zero(t, p.closed)
		require.True(t, p.validUntil.After(r.now.Add(24*365*time.Hour)))
	}
}

// requireOrdered checks the heap order, and that each lease knows its index.
func requireOrdered(t testing.TB, q queue) {
	t.Helper()
	for i, l := range q {
		if parent := q[(max(i, 1)-1)/2]; int(l.index) != i || parent.when > l.when {
			require.Fail(t, "not in order", "%d: index %d, at %d after %d", i, l.index, l.when, parent.when)
		}
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
