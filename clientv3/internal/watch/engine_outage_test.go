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
