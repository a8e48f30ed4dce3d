package watch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A waiting caller makes the next stream open at once. Without one it waits for its backoff.
func TestWakeOfTheNextStream(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(*testing.T, *cluster, *Engine) // then the stream breaks
		during func(*testing.T, *Engine)           // in the pause that follows
		wakes  int
	}{
		{name: "no caller waits", wakes: 0},
		{
			name: "a watch that is being created",
			before: func(t *testing.T, c *cluster, e *Engine) {
				t.Helper()
				c.live()[0].srv.unresponsive = true
				watch(t.Context(), e, all(0))
				synctest.Wait()
			},
			wakes: 1,
		},
		{
			name: "progress that was requested",
			before: func(t *testing.T, c *cluster, e *Engine) {
				c.live()[0].srv.unresponsive = true
				require.NoError(t, e.RequestProgress(t.Context()))
			},
			wakes: 1,
		},
		{
			name:   "a new watch",
			during: func(t *testing.T, e *Engine) { watch(t.Context(), e, all(0)) },
			wakes:  1,
		},
		{
			name:   "a request for progress",
			during: func(t *testing.T, e *Engine) { require.NoError(t, e.RequestProgress(t.Context())) },
			wakes:  1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.next = func(error) error { time.Sleep(time.Second); return nil }
				e := c.engine(t)
				watches(t, e, 1)
				if tt.before != nil {
					tt.before(t, c, e)
				}
				c.wakes.Store(0)
				c.live()[0].breakDown()
				synctest.Wait()
				if tt.during != nil {
					tt.during(t, e)
					synctest.Wait()
				}
				assert.EqualValues(t, tt.wakes, c.wakes.Load())
				time.Sleep(2 * time.Second)
				assert.EqualValues(t, tt.wakes, c.wakes.Load(), "an open stream is not woken")
			})
		})
	}
}

// A stream without any response is closed as a failure of its endpoint.
func TestStreamThatIsNeverAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(s *server) { s.unresponsive = c.opened == 0 }
		w := watch(t.Context(), c.engine(t), all(0))
		time.Sleep(firstCreateTimeout - time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []int{1}, c.ids())
		time.Sleep(time.Second)
		<-w.returned
		assert.Equal(t, []int{2}, c.ids())
		require.Len(t, c.causes, 1)
		assert.Equal(t, codes.Unavailable, status.Code(c.causes[0]))
		assert.ErrorContains(t, c.causes[0], "nothing was answered")
		c.write(1, "b")
		assert.Equal(t, []int64{2}, w.read(1))
	})
}

// A stream whose watches are all paused need not answer. Its time starts when a watch resumes.
func TestStreamWithALateFirstCreate(t *testing.T) {
	for _, after := range []time.Duration{firstCreateTimeout - time.Millisecond, 3 * firstCreateTimeout / 2} {
		synctest.Test(t, func(t *testing.T) {
			c, size := unread()
			c.become = func(s *server) { s.unresponsive = c.opened == 1 }
			w := watches(t, c.engineWith(t, 9*size, zap.NewNop()), 1)[0]
			c.write(10, "b")
			synctest.Wait()
			require.Equal(t, []int{0}, c.watchers(), "the watch is paused")
			c.live()[0].breakDown()
			time.Sleep(after)
			require.Equal(t, []int{2}, c.ids())
			w.read(10)
			time.Sleep(firstCreateTimeout - time.Millisecond)
			synctest.Wait()
			assert.Equal(t, []int{2}, c.ids())
			time.Sleep(firstCreateTimeout + time.Second)
			assert.Equal(t, []int{3}, c.ids())
			c.write(1, "b")
			assert.Equal(t, []int64{112}, w.read(1))
		})
	}
}

// requests returns the number of progress requests that the servers received.
func (c *cluster) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.progressRequests
}

func TestProgressRequestsOfTheEngine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		become func(*server)
		hourly int // about
	}{
		{"a server", func(*server) {}, 60},
		{"a proxy that does not echo ids", func(sv *server) { sv.proxy = true }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.become = tc.become
				e := c.engine(t)
				w := watches(t, e, 2)[0]
				assert.Equal(t, 1, c.requests(), "every stream starts with one")
				time.Sleep(time.Hour)
				own := c.requests() - 1
				assert.InDelta(t, tc.hourly, own, float64(tc.hourly)/6)
				c.write(1, "z")
				require.NoError(t, e.RequestProgress(t.Context()))
				assert.EqualValues(t, 2, (<-w.ch).Header.Revision, "a caller's request is sent")
				assert.Equal(t, 2+own, c.requests())
				c.live()[0].breakDown()
				time.Sleep(time.Second)
				assert.Equal(t, 3+own, c.requests())
			})
		})
	}
}

func TestResumptionIsReportedOnce(t *testing.T) {
	const pause = 300 * time.Millisecond
	t.Run("with the time of all attempts", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			var refused atomic.Int32
			c.open = func(context.Context) error {
				if refused.Add(-1) >= 0 {
					return errBroken
				}
				return nil
			}
			c.next = func(error) error {
				time.Sleep(pause)
				return nil
			}
			watches(t, c.engine(t), 3)
			time.Sleep(time.Second)
			require.Empty(t, c.resumptions(), "no stream has broken")
			for range 2 {
				refused.Store(2)
				c.live()[0].breakDown()
				time.Sleep(time.Minute)
			}
			require.Equal(t, []resumption{{3, 3 * pause}, {3, 3 * pause}}, c.resumptions())
		})
	})
	t.Run("when the stream moves", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			watches(t, c.engine(t), 2)
			c.remove()
			time.Sleep(2 * maxMoveDelay)
			require.Equal(t, []resumption{{2, 0}}, c.resumptions())
		})
	})
	t.Run("not when no watch had been created", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			var opened atomic.Int32
			c.open = func(context.Context) error {
				opened.Add(1)
				return nil
			}
			c.send = func(ctx context.Context) {
				if opened.Load() == 1 {
					<-ctx.Done()
				}
			}
			w := watch(t.Context(), c.engine(t), all(0))
			synctest.Wait()
			c.live()[0].breakDown()
			<-w.returned
			require.EqualValues(t, 2, opened.Load())
			require.Empty(t, c.resumptions())
		})
	})
}

// Quiet streams end, for example because a load balancer resets idle ones or the member loses its leader. A long-lived
// one resets the backoff before the next attempt is scheduled.
func TestProgressWhenAStreamEnds(t *testing.T) {
	for _, tc := range []struct {
		name    string
		created bool
		lived   time.Duration
		worked  int32
	}{
		{"long-lived", true, 2 * minStreamAge, 1},
		{"long-lived without a response", false, 2 * minStreamAge, 0},
		{"short-lived", true, minStreamAge / 2, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				if !tc.created {
					c.send = func(ctx context.Context) { <-ctx.Done() }
				}
				var before []int32 // number of calls of Progress at each call of Next
				c.next = func(error) error {
					before = append(before, c.worked.Load())
					return nil
				}
				e := c.engine(t)
				watch(t.Context(), e, all(0))
				for range 3 {
					time.Sleep(tc.lived)
					require.Len(t, c.live(), 1)
					c.live()[0].breakDown()
					synctest.Wait()
				}
				assert.Equal(t, []int32{tc.worked, 2 * tc.worked, 3 * tc.worked}, before)
			})
		})
	}
}

func TestProgressIsRequestedPeriodically(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := callWatch(t.Context(), e, Request{Key: []byte("quiet"), CreatedNotify: true})
		assert.True(t, (<-w.ch).Created)
		c.write(100, "b")
		time.Sleep(2 * freshness)
		c.compact(101)
		c.live()[0].breakDown()
		time.Sleep(time.Second)
		c.write(1, "quiet")
		assert.Equal(t, []int64{102}, w.read(1), "a quiet watch survives a compaction")
	})
}

func TestResponsesThatProveAStream(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		callWatch(t.Context(), e, all(0))
		synctest.Wait()
		assert.Zero(t, c.worked.Load(), "a confirmation proves nothing")
		c.write(1, "b")
		synctest.Wait()
		assert.EqualValues(t, 1, c.worked.Load(), "events prove the stream")
		time.Sleep(2 * minStreamAge)
		callWatch(t.Context(), e, all(0))
		synctest.Wait()
		assert.EqualValues(t, 2, c.worked.Load(), "so does a long life")
	})
}
