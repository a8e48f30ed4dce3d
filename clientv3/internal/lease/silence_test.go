package lease

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
					e, _ := startEngine(t, f)
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
				e, _ := startEngine(t, f)
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
		e, _ := startEngine(t, f)
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
func TestPatienceIsBounded(t *testing.T) {
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
			wake, ok := r.m.WakeAt()
			require.True(t, ok)
			require.Equal(t, tt.after, wake.Sub(r.now))
		})
	}
}
