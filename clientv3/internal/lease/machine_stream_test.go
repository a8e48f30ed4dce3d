package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func answerOf(id, ttl int64) *pb.LeaseKeepAliveResponse {
	return &pb.LeaseKeepAliveResponse{ID: id, TTL: ttl}
}

func TestSilence(t *testing.T) {
	r := newRig(t)
	r.renewed(1)
	r.pass(ttl/3 - 1)
	require.NoError(t, r.m.Silent(r.now), "no request is unanswered")
	r.pass(1)
	r.take()
	r.pass(maxSilence - 1)
	require.NoError(t, r.m.Silent(r.now))
	wake, ok := r.m.WakeAt()
	require.True(t, ok)
	require.Equal(t, r.now.Add(1), wake)
	r.pass(1)
	err := r.m.Silent(r.now)
	require.Equal(t, codes.Unavailable, status.Code(err))
	r.m.Lost(r.now, err)
	require.NoError(t, r.m.Silent(r.now))
}

// A server that works through a long queue is not silent, however old the oldest request is.
func TestSlowServerIsNotSilent(t *testing.T) {
	r := newRig(t)
	for id := range int64(20) {
		r.keep(id)
	}
	r.connect()
	r.take()
	for id := range int64(20) {
		r.pass(time.Second)
		require.NoError(t, r.m.Silent(r.now))
		r.answer(id, ttl)
	}
	r.pass(time.Second)
	require.NoError(t, r.m.Silent(r.now), "every request is answered")
}

func TestShortLeasesWaitLess(t *testing.T) {
	r := newRig(t)
	r.keep(1)
	r.connect()
	r.take()
	r.answer(1, 2*time.Second)
	r.renewed(2)
	r.pass(2 * time.Second / 3)
	require.Equal(t, []int64{1}, r.take())
	r.pass(500*time.Millisecond - 1)
	require.NoError(t, r.m.Silent(r.now))
	r.pass(1)
	require.Error(t, r.m.Silent(r.now))
}

func TestSilentOpening(t *testing.T) {
	r := newRig(t)
	r.keep(1)
	r.pass(time.Second)
	require.NoError(t, r.m.Silent(r.now), "no stream is being opened")
	r.m.Opening(r.now)
	r.pass(maxSilence - 1)
	require.NoError(t, r.m.Silent(r.now))
	r.pass(1)
	require.ErrorContains(t, r.m.Silent(r.now), "opened no keepalive stream")
}

// Thousands of leases that are due at the same time, after a common grant or an outage, are spread by their next
// renewal.
func TestRenewalsSpread(t *testing.T) {
	const n = 5_000
	r := newRig(t)
	r.m.random = func() float64 { r.drawn += 0.6180339887; r.drawn -= float64(int(r.drawn)); return r.drawn }
	round := func() {
		for _, id := range r.m.Take(r.now, make([]int64, 0, n)) {
			r.answer(id, ttl)
		}
	}
	for id := range int64(n) {
		r.keep(id)
	}
	r.connect()
	round()
	for range 2 {
		require.Less(t, r.busiest(), n/12, "the second half of the interval has 16 windows")
		r.m.Lost(r.now, errBroken)
		r.pass(ttl / 2)
		require.Len(t, r.m.due, n)
		r.connect()
		round()
	}
	start := r.now
	for r.now.Before(start.Add(5 * ttl)) {
		wake, ok := r.m.WakeAt()
		require.True(t, ok)
		r.pass(wake.Sub(r.now))
		require.Less(t, len(r.m.due), n/8, "the batches stay apart")
		round()
	}
}

// busiest returns the highest number of renewals that are due within one batch window.
func (r *rig) busiest() int {
	batches := map[instant]int{}
	most := 0
	for _, q := range r.m.waiting {
		batch := q.when / instant(window(ttl))
		batches[batch]++
		most = max(most, batches[batch])
	}
	return most
}

func TestRefusedLeaseIsPostponed(t *testing.T) {
	r := newRig(t)
	refused, kept := r.renewed(1), r.renewed(2)
	r.pass(ttl / 3)
	require.Equal(t, []int64{1, 2}, r.take())
	once := r.once(1)
	r.m.Lost(r.now, rpctypes.ErrGRPCPermissionDenied)
	r.m.Refused(r.now, rpctypes.ErrGRPCPermissionDenied)
	require.Equal(t, rpctypes.ErrGRPCPermissionDenied, once.cause)
	r.connect()
	require.Equal(t, []int64{2}, r.take(), "the other lease is still renewed")
	r.answer(2, ttl)

	var tried int
	for refused.closed == 0 {
		r.pass(100 * time.Millisecond)
		ids := r.take()
		for _, id := range ids {
			if id == 2 {
				r.answer(2, ttl)
			}
		}
		if slices.Contains(ids, 1) {
			tried++
			r.m.Lost(r.now, rpctypes.ErrGRPCPermissionDenied)
			r.m.Refused(r.now, rpctypes.ErrGRPCPermissionDenied)
			r.connect()
		}
		r.check()
	}
	require.Equal(t, r.epoch.Add(ttl), r.now.Truncate(100*time.Millisecond), "it may have lived until now")
	require.ErrorIs(t, refused.cause, rpctypes.ErrPermissionDenied)
	require.Greater(t, tried, 3)
	require.Less(t, tried, 100)
	require.Zero(t, kept.closed)
}

// A refused stream refuses no request.
func TestRefusedStream(t *testing.T) {
	r := newRig(t)
	k, o := r.keep(1), r.once(2)
	r.m.Opening(r.now)
	r.m.Lost(r.now, rpctypes.ErrGRPCAuthFailed)
	r.m.Refused(r.now, rpctypes.ErrGRPCAuthFailed)
	require.Equal(t, rpctypes.ErrGRPCAuthFailed, o.cause)
	require.Zero(t, k.closed)
	r.connect()
	require.Equal(t, []int64{1}, r.take())
}

// The refused request belonged to an abandoned lease, so no other lease ends.
func TestRefusedAbandoned(t *testing.T) {
	r := newRig(t)
	p := r.keep(1)
	r.connect()
	r.take()
	o := r.once(2)
	r.take()
	r.leave(p, nil)
	r.m.Lost(r.now, rpctypes.ErrGRPCPermissionDenied)
	r.m.Refused(r.now, rpctypes.ErrGRPCPermissionDenied)
	require.Zero(t, o.closed)
	require.Equal(t, Due, r.state(2))
}

func TestLeaderless(t *testing.T) {
	r := newRig(t)
	strict := r.subscribe(1, Subscriber{RequireLeader: true})
	strictOnce := r.subscribe(2, Subscriber{RequireLeader: true, Once: true})
	patient, other := r.keep(1), r.once(2)
	r.m.Leaderless(r.now)
	require.Equal(t, rpctypes.ErrNoLeader, strict.cause)
	require.Equal(t, rpctypes.ErrNoLeader, strictOnce.cause)
	require.Zero(t, patient.closed)
	require.Zero(t, other.closed)
	r.check()
}

func TestMove(t *testing.T) {
	r := newRig(t)
	r.m.Removed(r.now)
	require.False(t, r.m.Moving(r.now), "there is no stream")
	r.renewed(1)
	r.drawn = 0.5
	r.m.Removed(r.now)
	r.drawn = 0
	r.m.Removed(r.now)
	wake, ok := r.m.WakeAt()
	require.True(t, ok)
	require.Equal(t, r.now.Add(maxMove/2), wake)
	r.pass(maxMove/2 - 1)
	require.False(t, r.m.Moving(r.now))
	r.pass(1)
	require.True(t, r.m.Moving(r.now))
	r.m.Lost(r.now, errMoved)
	require.False(t, r.m.Moving(r.now))
	require.Equal(t, Waiting, r.state(1), "an answered lease is not due yet")
}

// A second end of a lease, or an unsolicited answer, changes nothing.
func TestUnsolicited(t *testing.T) {
	r := newRig(t)
	p := r.renewed(1)
	until := p.validUntil
	r.pass(time.Second)
	r.answer(1, ttl)
	r.answer(1, 0)
	r.answer(2, ttl)
	require.Len(t, p.ttls, 1)
	require.Equal(t, until, p.validUntil)
	require.Zero(t, p.closed)
	r.m.Lost(r.now, errBroken)
	r.m.Lost(r.now, errBroken)
	r.answer(1, ttl)
	require.Equal(t, until, p.validUntil)
}
