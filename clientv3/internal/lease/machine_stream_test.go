package lease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pause"
)

func answerOf(id, ttl int64) *pb.LeaseKeepAliveResponse {
	return &pb.LeaseKeepAliveResponse{ID: id, TTL: ttl}
}

func TestSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		begin func(r *rig)
		limit time.Duration
		want  string
	}{
		"a request is unanswered": {func(r *rig) {
			r.renewed(1)
			r.pass(ttl / 3)
			r.take()
		}, maxSilence, "answered no keepalive"},
		"that of a short lease, beside a long one": {func(r *rig) {
			r.keep(1)
			r.connect()
			r.take()
			r.answer(1, 2*time.Second)
			r.renewed(2)
			r.pass(2 * time.Second / 3)
			require.Equal(r.t, []int64{1}, r.take())
		}, 500 * time.Millisecond, "answered no keepalive"},
		"the stream is being opened": {func(r *rig) {
			r.keep(1)
			r.pass(time.Second)
			require.NoError(r.t, r.m.Silent(r.now), "no stream is being opened")
			r.m.Opening(r.now)
		}, maxSilence, "opened no keepalive stream"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tt.begin(r)
			r.pass(tt.limit - 1)
			require.NoError(t, r.m.Silent(r.now))
			require.EqualValues(t, 1, r.wakesAfter())
			r.pass(1)
			err := r.m.Silent(r.now)
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorContains(t, err, tt.want)
			r.m.Lost(r.now, err)
			require.NoError(t, r.m.Silent(r.now))
		})
	}
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

// Thousands of leases that are due at the same time, after a common grant or an outage, are spread by their next
// renewal.
func TestRenewalsSpread(t *testing.T) {
	const n = 5_000
	r := newRig(t)
	r.m.random = func() float64 { r.drawn += 0.6180339887; r.drawn -= float64(int(r.drawn)); return r.drawn }
	round := func() {
		for _, id := range r.takeUpTo(n) {
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
		r.pass(r.wakesAfter())
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
	r.refuse(rpctypes.ErrGRPCPermissionDenied)
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
			r.refuse(rpctypes.ErrGRPCPermissionDenied)
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

func TestMove(t *testing.T) {
	r := newRig(t)
	r.m.Removed(r.now)
	require.False(t, r.m.Moving(r.now), "there is no stream")
	r.renewed(1)
	r.drawn = 0.5
	r.m.Removed(r.now)
	r.drawn = 0
	r.m.Removed(r.now)
	require.Equal(t, maxMove/2, r.wakesAfter())
	r.pass(maxMove/2 - 1)
	require.False(t, r.m.Moving(r.now))
	r.pass(1)
	require.True(t, r.m.Moving(r.now))
	r.m.Lost(r.now, errMoved)
	require.False(t, r.m.Moving(r.now))
	require.Equal(t, Waiting, r.state(1), "an answered lease is not due yet")
}

// slowly answers every request after a delay.
func slowly(delay func() time.Duration, ttl time.Duration) *fakeStreams {
	return &fakeStreams{onSend: func(s *fakeStream, id int64) error {
		time.AfterFunc(delay(), func() { s.answer(id, ttl) })
		return nil
	}}
}

// A member whose answers take nearly the renewal interval, on every stream, keeps the lease, and keeps the stream once
// it is known to be slow.
func TestSlowMember(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 6 * time.Second, time.Minute} {
		for name, quick := range map[string]time.Duration{
			"from the beginning": 0, "after a quick answer": 1, "after many": 5 * ttl,
		} {
			t.Run(ttl.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					f := slowly(func() time.Duration {
						if time.Since(start) < quick {
							return 0
						}
						return ttl / 3 * 9 / 10
					}, ttl)
					e := startEngine(t, f)
					p := subscribe(t, e, t.Context(), 1, Subscriber{})
					time.Sleep(quick + 3*ttl)
					learned := f.count()
					require.LessOrEqual(t, learned, 6)
					time.Sleep(10 * ttl)
					require.False(t, p.isClosed())
					require.GreaterOrEqual(t, p.delivered(), 20)
					require.Equal(t, learned, f.count())
				})
			})
		}
	}
}

// When two members hang, a third one is asked in time.
func TestTwoMembersHang(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 6 * time.Second, time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				f := &fakeStreams{onSend: func(s *fakeStream, id int64) error {
					if s.number > 2 || time.Since(start) == 0 {
						s.answer(id, ttl)
					}
					return nil
				}}
				e := startEngine(t, f)
				p := subscribe(t, e, t.Context(), 1, Subscriber{})
				time.Sleep(5 * ttl)
				require.False(t, p.isClosed())
				require.Equal(t, 3, f.count())
			})
		})
	}
}

// A member that is fast again has, within a few renewals, no more time than one that was always fast.
func TestToleranceIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quick atomic.Bool
		var hangs atomic.Int64
		f := &fakeStreams{}
		f.onSend = func(s *fakeStream, id int64) error {
			switch {
			case int64(s.number) == hangs.Load():
			case quick.Load():
				s.answer(id, ttl)
			default:
				time.AfterFunc(3*time.Second, func() { s.answer(id, ttl) })
			}
			return nil
		}
		e := startEngine(t, f)
		p := subscribe(t, e, t.Context(), 1, Subscriber{})
		time.Sleep(10 * ttl)
		require.Equal(t, 2, f.count(), "one silent stream is enough to learn it")
		quick.Store(true)
		time.Sleep(3 * ttl)
		hangs.Store(2)
		time.Sleep(ttl)
		require.Equal(t, 3, f.count())
		requests := f.stream(1).requests()
		lost := requests[len(requests)-1]
		require.Equal(t, lost.at.Add(maxSilence), f.stream(2).requests()[0].at)
		require.False(t, p.isClosed())
	})
}

// The time allowed for a missing answer is at most what the next stream can wait for, and at most a minute.
func TestSilenceLimitIsBounded(t *testing.T) {
	r := newRig(t)
	o := r.once(1)
	r.connect()
	for want := maxSilence; want < 2*maxTolerance; want *= 2 {
		r.take()
		require.Equal(t, min(want, maxTolerance), r.m.silenceLimit())
		r.pass(r.m.silenceLimit() - 1)
		require.NoError(t, r.m.Silent(r.now))
		r.pass(1)
		require.Error(t, r.m.Silent(r.now))
		r.m.Lost(r.now, errBroken)
		r.connect()
	}
	require.Zero(t, o.closed)
	r.take()
	r.answer(1, ttl)

	r.renewed(2)
	r.pass(ttl / 3)
	r.take()
	require.Equal(t, ttl/2, r.m.silenceLimit(), "three quarters of what is left")
}

// A lease that is the only unanswered one keeps its own schedule: no other lease is aligned with it.
func TestLeaseThatAloneWasUnanswered(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leases int64
		after  time.Duration
	}{
		{"alone", 1, ttl / 3 * 31 / 32},
		{"one of two", 2, ttl / 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			for id := range tt.leases {
				r.renewed(id)
			}
			r.pass(ttl / 3)
			r.take()
			r.m.Lost(r.now, errBroken)
			r.connect()
			r.take()
			r.drawn = 1
			for id := range tt.leases {
				r.answer(id, ttl)
			}
			require.Equal(t, tt.after, r.wakesAfter())
		})
	}
}

// Only a lease that becomes due without a stream makes the next stream open at once.
func TestDueLeasesWakeTheNextStream(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wakes bool
		do    func(t *testing.T, e *Engine)
	}{
		{"nothing is due", false, func(*testing.T, *Engine) {}},
		{"a keepalive becomes due", true, func(*testing.T, *Engine) { time.Sleep(ttl / 5) }},
		{"a new lease", true, func(t *testing.T, e *Engine) {
			subscribe(t, e, t.Context(), 2, Subscriber{})
		}},
		{"one answer for a lease that is kept alive", true, func(t *testing.T, e *Engine) {
			subscribe(t, e, t.Context(), 1, Subscriber{Once: true})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeStreams{onNext: func(ctx context.Context, _ error) error { return pause.For(ctx, time.Minute) }}
				e := startEngine(t, f)
				subscribe(t, e, t.Context(), 1, Subscriber{})
				time.Sleep(ttl / 7) // the next keepalive is due after a sixth of the TTL to a third
				f.last().broken <- errors.New("the stream broke")
				synctest.Wait()
				f.woken()
				tt.do(t, e)
				synctest.Wait()
				assert.Equal(t, tt.wakes, f.woken() > 0)
			})
		})
	}
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

// Canceled ends the Once subscribers, since a grpc-proxy may hide a refusal behind it, but not the first time.
func TestCanceledAgain(t *testing.T) {
	r := newRig(t)
	k, canceled := r.keep(1), status.Error(codes.Canceled, "context canceled")
	lose := func(ids []int64, err error, answered ...int64) {
		r.pass(time.Second)
		r.connect()
		require.ElementsMatch(t, ids, r.take())
		for _, id := range answered {
			r.answer(id, ttl)
		}
		r.m.Lost(r.now, err)
		r.check()
	}
	lose([]int64{1}, canceled)
	first := r.once(2)
	lose([]int64{1, 2}, canceled, 1)
	lose([]int64{2}, errBroken)
	require.Zero(t, first.closed, "there was an answer between them")
	lose([]int64{2}, canceled)
	require.ErrorIs(t, first.cause, canceled)
	require.Zero(t, k.closed)
}

// A stream that ended before it carried a request was no answer to one.
func TestCanceledOnce(t *testing.T) {
	r := newRig(t)
	canceled := status.Error(codes.Canceled, "context canceled")
	r.m.Opening(r.now)
	r.m.Lost(r.now, errBroken)
	once := r.once(1)
	for _, closed := range []int{0, 1} {
		r.pass(time.Second)
		r.connect()
		require.Equal(t, []int64{1}, r.take())
		r.m.Lost(r.now, canceled)
		r.check()
		require.Equal(t, closed, once.closed)
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
