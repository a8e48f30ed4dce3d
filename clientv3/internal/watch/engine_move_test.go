package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

func TestStreamsLeaveARemovedEndpoint(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := watch(t.Context(), e, all(0))
		<-w.returned
		c.write(1, "b")
		before := c.live()[0]
		c.remove()
		c.write(1, "b")
		time.Sleep(maxMoveDelay)
		synctest.Wait()
		require.Len(t, c.live(), 1)
		assert.NotSame(t, before, c.live()[0])
		c.write(1, "b")
		assert.Equal(t, []int64{2, 3, 4}, w.read(3))
		assert.Empty(t, c.causes, "a move is not a failure")
		after := c.live()[0]
		time.Sleep(time.Hour)
		assert.Equal(t, []*stream{after}, c.live(), "the stream does not move again")
	})
}

func TestAStreamMovesAtAKnownRevision(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := watch(t.Context(), e, Request{Key: []byte("quiet")})
		<-w.returned
		c.write(100, "b")
		c.remove()
		time.Sleep(2 * maxMoveDelay)
		c.mu.Lock()
		start := c.streams[0].srv.watchers[0].start
		c.mu.Unlock()
		assert.EqualValues(t, 102, start, "the server was asked for its revision before the move")
	})
}

func TestStreamsMoveOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		engines := make([]*Engine, 20)
		for i := range engines {
			engines[i] = c.engine(t)
			<-watch(t.Context(), engines[i], all(0)).returned
		}
		before := c.live()
		c.remove()
		time.Sleep(maxMoveDelay / 2)
		stayed := 0
		for _, st := range before {
			if st.ctx.Err() == nil {
				stayed++
			}
		}
		assert.Positive(t, stayed)
		assert.Less(t, stayed, len(before))
	})
}

func TestWithoutALeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.noLeads.Store(true)
		e := c.engine(t)
		start := time.Now()
		w := watch(t.Context(), e, all(0))
		<-w.returned
		assert.Less(t, time.Since(start), time.Second)
		require.Len(t, c.live(), 1)
		assert.False(t, c.live()[0].strict, "watches that require no leader are served without one")
		c.write(1, "b")

		time.Sleep(maxLeaderRetry + time.Second)
		assert.False(t, c.live()[0].strict, "there is still no leader")
		c.write(1, "b")
		c.noLeads.Store(false)
		time.Sleep(maxLeaderRetry + time.Second)
		require.Len(t, c.live(), 1)
		assert.True(t, c.live()[0].strict)
		c.write(1, "b")
		assert.Equal(t, []int64{2, 3, 4}, w.read(3))
		strict := c.live()[0]
		time.Sleep(time.Hour)
		assert.Equal(t, []*stream{strict}, c.live())
	})
}

func TestAShortElectionIsSoonOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.noLeads.Store(true)
		w := watch(t.Context(), c.engine(t), all(0))
		<-w.returned
		for _, without := range []time.Duration{0, time.Minute, 0} { // a long election does not delay the next one
			time.Sleep(without)
			require.False(t, c.live()[0].strict)
			c.noLeads.Store(false)
			time.Sleep(max(2*minLeaderRetry, min(without, maxLeaderRetry)+proven))
			require.True(t, c.live()[0].strict, "after %v without a leader", without)
			c.noLeads.Store(true)
			c.live()[0].breakDown()
			for len(c.live()) == 0 || c.live()[0].strict {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

func TestRequireLeaderWatchIsNeverServedWithoutALeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.noLeads.Store(true)
		e := c.engine(t)
		ctx := metadata.AppendToOutgoingContext(t.Context(), rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
		w := watch(ctx, e, all(0))
		time.Sleep(time.Minute)
		assert.Empty(t, c.live())
		c.noLeads.Store(false)
		<-w.returned
		assert.True(t, c.live()[0].strict)
	})
}

func TestProgressIsRequestedPeriodically(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := watch(t.Context(), e, Request{Key: []byte("quiet")})
		<-w.returned
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
		first := watch(t.Context(), e, all(0))
		<-first.returned
		synctest.Wait()
		assert.Zero(t, c.worked.Load(), "a confirmation proves nothing")
		c.write(1, "b")
		synctest.Wait()
		assert.EqualValues(t, 1, c.worked.Load(), "events prove the stream")
		time.Sleep(2 * proven)
		second := watch(t.Context(), e, all(0))
		<-second.returned
		synctest.Wait()
		assert.EqualValues(t, 2, c.worked.Load(), "so does a long life")
	})
}
