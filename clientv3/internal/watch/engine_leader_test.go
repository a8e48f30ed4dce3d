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

// leaderless returns a cluster without a leader, and n watches that are served nevertheless, on one stream. Once there
// is a leader, led, if not nil, is called before each stream is opened.
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
				c.replaceServers(become)
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
		c.replaceServers(func(sv *server) { sv.unresponsive = true })
		c.noLeads.Store(false)
		time.Sleep(10 * firstCreateTimeout)
		c.write(1, "b")
		for _, w := range calls {
			assert.Equal(t, []int64{2}, w.read(1))
		}
		assert.Equal(t, 2, c.creates)
		assert.LessOrEqual(t, len(c.live()), 2)
		assert.Less(t, c.opened, 12, "each attempt has a timeout")
		c.replaceServers(nil)
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
		c.replaceServers(func(sv *server) { sv.unresponsive = true })
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

func TestAShortElectionIsSoonOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.noLeads.Store(true)
		callWatch(t.Context(), c.engine(t), all(0))
		for _, without := range []time.Duration{0, time.Minute, 0} { // a long election does not delay the next one
			time.Sleep(without)
			require.False(t, c.live()[0].strict)
			c.noLeads.Store(false)
			time.Sleep(max(2*minLeaderRetry, min(without, maxLeaderRetry)+minStreamAge))
			require.True(t, c.live()[0].strict, "after %v without a leader", without)
			c.noLeads.Store(true)
			c.live()[0].breakDown()
			for len(c.live()) == 0 || c.live()[0].strict {
				time.Sleep(time.Millisecond)
			}
		}
	})
}
