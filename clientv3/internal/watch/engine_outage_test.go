package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Quiet streams end, for example because a load balancer resets idle ones or the member loses its leader. A long-lived
// one resets the backoff before the next attempt is scheduled.
func TestProgressWhenAStreamEnds(t *testing.T) {
	for _, tc := range []struct {
		name    string
		created bool
		lived   time.Duration
		worked  int32
	}{
		{"long-lived", true, 2 * proven, 1},
		{"long-lived without a response", false, 2 * proven, 0},
		{"short-lived", true, proven / 2, 0},
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

// A move is neither a failure nor a proof of the new endpoint.
func TestAMoveIsNoProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(sv *server) { sv.swallowing = true }
		watches(t, c.engine(t), 1)
		time.Sleep(2 * proven)
		c.remove()
		time.Sleep(2 * maxMoveDelay)
		assert.Equal(t, []int{2}, c.ids())
		assert.Zero(t, c.worked.Load())
		assert.Empty(t, c.causes)
	})
}

// queued returns the total length of the queues of all sessions.
func (e *Engine) queued() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := 0
	for _, shards := range e.groups {
		for _, sh := range shards {
			sh.mu.Lock()
			sum += len(sh.session.queue)
			sh.mu.Unlock()
		}
	}
	return sum
}

func TestCancelledWatchesLeaveNoStateDuringAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		up := make(chan struct{})
		c.open = func(ctx context.Context) error {
			select {
			case <-up:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		e := c.engine(t)
		stays := watch(t.Context(), e, all(0))
		synctest.Wait()
		for range 1000 {
			w := watch(t.Context(), e, all(0))
			synctest.Wait()
			w.cancel()
			<-w.returned
			require.LessOrEqual(t, e.queued(), 3)
		}
		close(up)
		<-stays.returned
		assert.Equal(t, []int{1}, c.watchers())
		c.write(1, "b")
		assert.Equal(t, []int64{2}, stays.read(1))
	})
}

// Random subscriptions are added and removed without a stream. Later exactly the remaining ones are created.
func TestQueueBoundsRemovedSubscriptions(t *testing.T) {
	for seed := range uint64(20) {
		in := &choices{randomBytes(seed, 1000)}
		ss := newSession()
		subs := make([]*subscription, 20)
		for i := range subs {
			subs[i] = newSubscription(&Request{Key: []byte("k")}, &follower{}, 1)
		}
		wanted := make(map[*subscription]bool)
		for in.more() {
			s := subs[in.below(len(subs))]
			if in.below(2) == 0 {
				ss.add(s)
				wanted[s] = true
			} else {
				ss.remove(s)
				delete(wanted, s)
			}
			require.LessOrEqual(t, len(ss.queue), 2*len(wanted), "seed %d", seed)
		}
		sc := &script{t, ss}
		sc.connect()
		sc.receives(created(1, 1))
		require.Len(t, ss.take(), len(wanted), "seed %d", seed)
	}
}
