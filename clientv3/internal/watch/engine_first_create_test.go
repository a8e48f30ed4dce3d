package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A stream without any response is closed as a failure of its endpoint.
func TestStreamThatIsNeverAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(s *server) { s.deaf = c.opened == 0 }
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

// A stream with at least one response may then be silent forever.
func TestStreamThatWasAnsweredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		w := watch(t.Context(), c.engine(t), all(0))
		<-w.returned
		time.Sleep(10 * firstCreateTimeout)
		assert.Equal(t, []int{1}, c.ids())
	})
}

// A stream whose watches are all paused need not answer. Its time starts when a watch resumes.
func TestStreamWithALateFirstCreate(t *testing.T) {
	for _, after := range []time.Duration{firstCreateTimeout - time.Millisecond, 3 * firstCreateTimeout / 2} {
		synctest.Test(t, func(t *testing.T) {
			c, size := unread()
			c.become = func(s *server) { s.deaf = c.opened == 1 }
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
