package lease

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/pause"
)

func TestKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStreams{}
		e := startEngine(t, f)
		p := subscribe(t, e, t.Context(), 1, Subscriber{})
		time.Sleep(time.Hour)
		require.False(t, p.isClosed())
		require.Equal(t, 1, f.count())
		requests := f.last().requests()
		for i, r := range requests[1:] {
			interval := r.at.Sub(requests[i].at)
			require.LessOrEqual(t, interval, ttl/3, "at the latest after a third of the TTL")
			if i > 0 {
				require.GreaterOrEqual(t, interval, ttl/3*31/32)
			}
		}
		require.InDelta(t, 182, len(requests), 3)
		require.Len(t, requests, p.delivered())
		require.EqualValues(t, len(requests), f.progress.Load(), "each answer shows that the stream works")
		require.Equal(t, requests[len(requests)-1].at.Add(ttl), p.valid())
	})
}

// A blocked send ends with its stream, and another one is opened within the interval of a renewal.
func TestBlockedSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fakeStreams{onSend: func(s *fakeStream, id int64) error {
			if s.number == 1 && time.Since(start) > time.Minute {
				<-s.ctx.Done()
				return s.ctx.Err()
			}
			s.answer(id, ttl)
			return nil
		}}
		e := startEngine(t, f)
		p := subscribe(t, e, t.Context(), 1, Subscriber{})
		time.Sleep(3 * time.Minute)
		require.False(t, p.isClosed())
		require.Equal(t, 2, f.count())
		first := f.stream(0).requests()
		require.LessOrEqual(t, f.stream(1).requests()[0].at.Sub(first[len(first)-1].at), ttl/3)
	})
}

func TestOpeningThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStreams{onOpen: func(ctx context.Context, n int) error {
			if n < 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		e := startEngine(t, f)
		start := time.Now()
		p := subscribe(t, e, t.Context(), 1, Subscriber{})
		time.Sleep(3*maxSilence + time.Second)
		require.Equal(t, 3, f.count())
		require.Equal(t, start.Add(3*maxSilence), f.last().requests()[0].at, "the second attempt has twice the time")
		require.Equal(t, 1, p.delivered())
	})
}

// A lease survives an outage that is shorter than its remaining TTL. After a longer one it is lost exactly when its TTL
// has passed.
func TestOutage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lasts time.Duration
		lives bool
	}{
		{"shorter than the TTL", ttl - 3*ttl/2/minPauseShare, true},
		{"longer than the TTL", ttl + time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var up time.Time
				f := &fakeStreams{
					onOpen: func(context.Context, int) error {
						if time.Now().Before(up) {
							return errBroken
						}
						return nil
					},
					onNext: func(ctx context.Context, _ error) error { return pause.For(ctx, 2*time.Hour) },
				}
				e := startEngine(t, f)
				start := time.Now()
				p := subscribe(t, e, t.Context(), 1, Subscriber{})
				synctest.Wait()
				require.Equal(t, 1, p.delivered())
				up = start.Add(tt.lasts)
				f.last().broken <- errBroken
				time.Sleep(2 * time.Hour)
				require.Equal(t, tt.lives, !p.isClosed())
				if tt.lives {
					require.Less(t, f.count(), 50, "attempts are fast but bounded")
					return
				}
				require.ErrorIs(t, p.cause, ErrUnanswered)
				require.ErrorIs(t, p.cause, errBroken)
				require.Equal(t, start.Add(ttl), p.valid())
			})
		})
	}
}

// The process is stopped between a keepalive and its answer, and no member answers as it goes on. The lease is valid from
// the moment of sending, and no longer.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stop = maxSilence - time.Millisecond
		f := &fakeStreams{}
		e := startEngine(t, f)
		f.onSend = func(s *fakeStream, id int64) error {
			if len(s.requests()) == 1 && s.number == 1 {
				time.AfterFunc(stop, func() { s.answer(id, ttl) })
			}
			return nil
		}
		p := subscribe(t, e, t.Context(), 1, Subscriber{})
		start := time.Now()
		time.Sleep(stop + time.Millisecond)
		require.Equal(t, 1, p.delivered())
		require.Equal(t, start.Add(ttl), p.valid())
		<-p.over
		require.Equal(t, ttl, time.Since(start))
	})
}

func TestRefusalPausesAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStreams{
			onSend: func(s *fakeStream, id int64) error {
				if id == 1 {
					s.broken <- rpctypes.ErrGRPCPermissionDenied
					return nil
				}
				s.answer(id, ttl)
				return nil
			},
			onNext: func(_ context.Context, err error) error { return err },
		}
		e := startEngine(t, f)
		once := subscribe(t, e, t.Context(), 1, Subscriber{Once: true})
		<-once.over
		require.Equal(t, rpctypes.ErrGRPCPermissionDenied, once.cause)

		other := subscribe(t, e, t.Context(), 2, Subscriber{})
		refused := subscribe(t, e, t.Context(), 1, Subscriber{})
		time.Sleep(time.Hour)
		require.True(t, refused.isClosed())
		require.ErrorIs(t, refused.cause, rpctypes.ErrPermissionDenied)
		require.False(t, other.isClosed())
		synctest.Wait()
		ends, pauses := f.ends()
		require.Len(t, ends, pauses)
	})
}

func TestEndOfTheClientHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := errors.New("closed")
		f := &fakeStreams{
			onOpen:  func(context.Context, int) error { return errBroken },
			onNext:  func(_ context.Context, err error) error { return err },
			onPause: func(context.Context, error) error { return closed },
		}
		e := startEngine(t, f)
		p := subscribe(t, e, t.Context(), 1, Subscriber{})
		<-p.over
		require.Equal(t, closed, p.cause)
		require.Equal(t, closed, e.Subscribe(t.Context(), 1, &Subscriber{Sink: p}))
		require.Equal(t, 1, p.closed)
		require.Equal(t, 1, f.count())
	})
}

// An endpoint that the stream has already left may be removed without effect.
func TestRemovalOfAnEarlierEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStreams{}
		e := startEngine(t, f)
		subscribe(t, e, t.Context(), 1, Subscriber{})
		synctest.Wait()
		f.last().broken <- errBroken
		synctest.Wait()
		require.Equal(t, 2, f.count())
		e.leave(f.stream(0).removed)
		time.Sleep(10 * ttl)
		require.Equal(t, 2, f.count())
		failures, _ := f.ends()
		e.leave(f.stream(1).removed)
		time.Sleep(2 * maxMove)
		require.Equal(t, 3, f.count())
		ends, _ := f.ends()
		require.Equal(t, failures, ends, "a move is not a failure")
	})
}

// No goroutine runs and no stream is opened while there is no lease.
func TestIdleEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStreams{}
		e := startEngine(t, f)
		e.Granted(time.Now(), 1, 60)
		e.Revoked(1)
		time.Sleep(time.Hour)
		require.Zero(t, f.count())
		ctx, cancel := context.WithCancel(t.Context())
		p := subscribe(t, e, ctx, 1, Subscriber{})
		synctest.Wait()
		cancel()
		<-p.over
		f.last().broken <- errBroken
		time.Sleep(time.Hour)
		require.Equal(t, 1, f.count())
		subscribe(t, e, t.Context(), 1, Subscriber{})
		synctest.Wait()
		require.Equal(t, 2, f.count())
	})
}

func TestClose(t *testing.T) {
	f := &fakeStreams{onSend: func(s *fakeStream, _ int64) error {
		<-s.ctx.Done() // Send blocks
		return s.ctx.Err()
	}}
	e := startEngine(t, f)
	p := subscribe(t, e, t.Context(), 1, Subscriber{})
	q := subscribe(t, e, t.Context(), 2, Subscriber{Once: true})
	over := errors.New("over")
	e.Close(over)
	e.Close(errors.New("again"))
	for _, s := range []*probe{p, q} {
		require.Equal(t, 1, s.closed)
		require.Equal(t, over, s.cause)
	}
	require.Equal(t, over, e.Subscribe(t.Context(), 3, &Subscriber{Sink: p}))

	unused := startEngine(t, &fakeStreams{})
	unused.Close(over)
}

// Neither a lease nor a cancellable context costs a goroutine.
func TestNoGoroutineForALease(t *testing.T) {
	f := &fakeStreams{}
	e := startEngine(t, f)
	subscribe(t, e, t.Context(), 0, Subscriber{})
	before := runtime.NumGoroutine()
	for id := range int64(1000) {
		subscribe(t, e, t.Context(), id, Subscriber{})
	}
	require.Less(t, runtime.NumGoroutine(), before+10)
}
