package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// leaderless returns a cluster without a leader, and an engine whose watches are served nevertheless, on its only
// stream. Once there is a leader, led, if not nil, is called before each stream is opened.
func leaderless(t *testing.T, n int, led func(context.Context, *cluster) error) (*cluster, []*call) {
	t.Helper()
	c := newCluster()
	c.noLeads.Store(true)
	c.open = func(ctx context.Context) error {
		c.tries.Add(1)
		if led == nil || c.noLeads.Load() {
			return nil
		}
		return led(ctx, c)
	}
	calls := watches(t, c.engine(t), n)
	require.Len(t, c.live(), 1)
	require.False(t, c.live()[0].strict)
	return c, calls
}

// requireLed checks that there is one stream, that it requires a leader, and that it carries exactly the watches.
func requireLed(t *testing.T, c *cluster, watches int) {
	t.Helper()
	synctest.Wait()
	require.Len(t, c.live(), 1)
	require.True(t, c.live()[0].strict)
	require.Equal(t, []int{watches}, c.watchers())
}

// Without a leader watches stay on their stream, and move once when there is a leader again.
func TestWatchesStayUntilThereIsALeader(t *testing.T) {
	const n, outage = 200, time.Minute
	for name, become := range map[string]func(*server){
		"etcd":  nil,
		"early": func(sv *server) { sv.early = true },
		"lax":   func(sv *server) { sv.lax = true },
		"proxy": func(sv *server) { sv.proxy, sv.lax = true, true }, // chooses the watch ids
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, calls := leaderless(t, n, nil)
				c.turn(become)
				tries := c.tries.Load()
				for range int(outage / time.Second) {
					time.Sleep(time.Second)
					c.write(1, "b")
				}
				assert.Equal(t, n, c.creates)
				tries = c.tries.Load() - tries
				assert.Less(t, tries, int32(30))
				assert.Greater(t, tries, int32(6))

				c.noLeads.Store(false)
				time.Sleep(maxLeaderRetry)
				requireLed(t, c, n)
				assert.Equal(t, 2*n, c.creates)
				c.write(5, "b")
				last := int64(1 + outage/time.Second + 5)
				for _, w := range calls {
					assertRevisions(t, 2, last, w.read(int(last-1)))
				}
			})
		})
	}
}

// Watches do not move to a server that accepts a stream and answers nothing.
func TestWatchesDoNotMoveToAServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, calls := leaderless(t, 2, nil)
		c.turn(func(sv *server) { sv.unresponsive = true })
		c.noLeads.Store(false)
		time.Sleep(10 * firstCreateTimeout)
		c.write(1, "b")
		for _, w := range calls {
			assert.Equal(t, []int64{2}, w.read(1))
		}
		assert.Equal(t, 2, c.creates)
		assert.LessOrEqual(t, len(c.live()), 2)
		assert.Less(t, c.opened, 12, "each attempt has a timeout")
		c.turn(nil)
		time.Sleep(firstCreateTimeout + maxLeaderRetry)
		requireLed(t, c, 2)
	})
}

// Watches do not move to a server that refuses the token of the stream.
func TestWatchesDoNotMoveToAStreamWhoseTokenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := leaderless(t, 2, nil)
		c.mu.Lock()
		c.invalidates, c.late = true, 2
		c.mu.Unlock()
		c.expire()
		c.noLeads.Store(false)
		time.Sleep(3 * maxLeaderRetry)
		requireLed(t, c, 2)
		assert.Len(t, c.invalidated, 3, "two refused tokens, and one refused watch of an empty range")
		assert.Equal(t, 4, c.creates)
	})
}

// A user may have no permission for the empty range that the stream is tried with.
func TestWatchesMoveAlthoughTheTrialIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := leaderless(t, 2, nil)
		c.mu.Lock()
		c.invalidates, c.denies, c.spares = true, rpctypes.ErrGRPCPermissionDenied.Error(), all(0).Key
		c.mu.Unlock()
		c.noLeads.Store(false)
		time.Sleep(maxLeaderRetry)
		requireLed(t, c, 2)
	})
}

// The search for a leader ends with the watches in each of its states.
func TestTheSearchForALeaderEndsWithTheWatches(t *testing.T) {
	block := func(ctx context.Context, _ *cluster) error { <-ctx.Done(); return ctx.Err() }
	unresponsive := func(_ context.Context, c *cluster) error {
		c.turn(func(sv *server) { sv.unresponsive = true })
		return nil
	}
	for name, led := range map[string]func(context.Context, *cluster) error{
		"while it pauses": nil, "while it opens": block, "while it waits for an answer": unresponsive,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, calls := leaderless(t, 1, led)
				c.noLeads.Store(led == nil)
				time.Sleep(minLeaderRetry + firstCreateTimeout/2)
				calls[0].cancel()
				synctest.Wait()
				assert.Empty(t, c.live())
			})
		})
	}
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
