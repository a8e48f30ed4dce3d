package concurrency

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3/internal/clienttest"
)

// requireRefused checks that the waiter cannot remove the key.
func requireRefused(t *testing.T, c *claims, by *waiter) {
	t.Helper()
	_, _, begun := c.remove("k", by)
	require.False(t, begun)
}

func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c claims
		one, other, third := &waiter{key: "k"}, &waiter{key: "k"}, &waiter{key: "k"}
		require.NoError(t, c.enter(t.Context(), one))
		require.NoError(t, c.enter(t.Context(), other))
		requireRefused(t, &c, one)
		requireRefused(t, &c, nil)
		c.hold(other, 7)
		spared, end, begun := c.remove("k", one)
		require.True(t, begun)
		require.Equal(t, []int64{7}, spared)
		requireRefused(t, &c, one)

		ended := clienttest.Ended(t)
		require.Equal(t, context.Canceled, c.enter(ended, third))
		entered := clienttest.Go(func() error { return c.enter(t.Context(), third) })
		synctest.Wait()
		require.Empty(t, entered, "enter waits for the end of the removal")
		end()
		require.NoError(t, <-entered)
		for _, w := range []*waiter{one, other, third} {
			require.NotEmpty(t, c.byKey)
			c.leave(w)
		}
		require.Empty(t, c.byKey)

		_, end, begun = c.remove("k", nil)
		require.True(t, begun)
		end()
		require.Empty(t, c.byKey)
	})
}

func TestClaimsOfACleanedUpKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c claims
		settled := c.beginCleanup("k", time.Now().Add(time.Minute))
		require.Nil(t, c.beginCleanup("k", time.Now().Add(time.Hour)), "once is enough")
		one, other := &waiter{key: "k"}, &waiter{key: "k"}
		require.NoError(t, c.enter(t.Context(), one))
		require.NoError(t, c.enter(t.Context(), other))
		require.Empty(t, settled)
		c.hold(one, 1)
		<-settled
		c.leave(one)
		c.leave(other)
		<-settled
		require.Empty(t, settled, "one signal for both")
		_, end, begun := c.remove("k", nil)
		require.True(t, begun)
		end()
		require.Empty(t, settled, "the cleanup's own removal is not signalled")

		require.Equal(t, time.Hour, c.endCleanup("k"))
		time.Sleep(time.Hour)
		require.Zero(t, c.endCleanup("k"))
		require.Empty(t, c.byKey)
		require.NotNil(t, c.beginCleanup("k", time.Now().Add(time.Minute)))
	})
}

func TestClaimsOfAKeyWithAScheduledDelete(t *testing.T) {
	var c claims
	w := &waiter{key: "k"}
	require.False(t, c.deleteScheduled("k", 1))
	require.Empty(t, c.byKey)
	require.NoError(t, c.enter(t.Context(), w))
	c.scheduleDelete("k", 7)
	c.scheduleDelete("k", 5)
	c.hold(w, 7) // it held the key before, and could not release it
	c.leave(w)
	require.True(t, c.deleteScheduled("k", 5), "a later key has been seen, it is gone")
	require.True(t, c.deleteScheduled("k", 7))
	require.False(t, c.deleteScheduled("k", 8))
	require.NoError(t, c.enter(t.Context(), w))
	c.hold(w, 8)
	require.False(t, c.deleteScheduled("k", 7))
	c.leave(w)
	require.Empty(t, c.byKey)
}
