package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
)

// heavy is the size of a large value, and heavyBuffer the bound of a watch's buffer.
const (
	heavy       = 500 << 10
	heavyBuffer = 16 << 20
)

// writeHeavy makes revisions of large values. The values share their memory.
func (c *cluster) writeHeavy(revisions int, keys ...string) {
	value := make([]byte, heavy)
	for range revisions {
		c.mu.Lock()
		c.hist.write(keys...)
		for _, ev := range c.hist.events[c.hist.rev()] {
			ev.Kv.Value = value
		}
		for _, st := range c.streams {
			st.srv.notify()
			st.flushLocked()
		}
		c.mu.Unlock()
	}
}

// readTo returns the revisions of the events until the given one.
func (c *call) readTo(rev int64) []int64 {
	var got []int64
	for r := range c.ch {
		got = append(got, revisions(r.Events)...)
		if n := len(got); n > 0 && got[n-1] >= rev {
			break
		}
	}
	return got
}

// backlog returns an engine over a cluster with values of 450 MB, in fragments of three events.
func backlog(t *testing.T) (*cluster, *Engine) {
	c := newCluster()
	c.become = func(sv *server) { sv.fragment = 3 }
	c.writeHeavy(900, "b")
	return c, c.engineWith(t, heavyBuffer, zap.NewNop())
}

// A watch with a large backlog, whose caller does not read, holds no more than its bound. Another
// watch of the same client gets its events meanwhile, and all arrives once it is read.
func TestALargeBacklogIsBounded(t *testing.T) {
	for name, before := range map[string]bool{"the other watch is older": true, "the watch is alone first": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, e := backlog(t)
				var other *call
				if before {
					other = callWatch(t.Context(), e, Request{Key: []byte("y")})
				}
				slow := callWatch(t.Context(), e, all(2))
				if !before {
					other = callWatch(t.Context(), e, Request{Key: []byte("y")})
				}
				for rev := int64(902); rev < 910; rev++ {
					c.write(1, "y")
					assert.Equal(t, []int64{rev}, other.read(1))
					synctest.Wait()
					assert.LessOrEqual(t, e.cfg.Budget.used.Load(), int64(heavyBuffer+4*heavy))
					time.Sleep(100 * time.Millisecond)
				}
				c.mu.Lock()
				assert.LessOrEqual(t, c.received, 2*heavyBuffer, "the rest is not received")
				c.mu.Unlock()
				time.Sleep(maxReaderWait)
				synctest.Wait()
				assert.Equal(t, []int{1}, c.watchers(), "the watch is paused and costs the server nothing")
				assertRevisions(t, 2, 909, slow.readTo(909))
				c.write(1, "b")
				assert.Equal(t, []int64{910}, slow.readTo(910))
				time.Sleep(2 * returnInterval)
				assert.Zero(t, e.dedicatedStreams(), "it has caught up")
				assert.Zero(t, e.cfg.Budget.used.Load())
			})
		})
	}
}

// A caller that reads a large backlog without long pauses is waited for: history is requested
// once.
func TestAReaderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := backlog(t)
		watches(t, e, 1)
		slow := callWatch(t.Context(), e, all(2))
		before := c.created()
		var got []int64
		for len(got) < 900 {
			got = append(got, slow.read(1)...)
			time.Sleep(maxReaderWait / 400)
		}
		assertRevisions(t, 2, 901, got)
		assert.LessOrEqual(t, c.created(), before+2, "both watches are created again when one moves to a dedicated stream")
	})
}

// A watch resumes on a dedicated stream, so its backlog does not delay the others.
func TestAPausedWatchResumesOnADedicatedStream(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(sv *server) { sv.fragment = 3 }
		e := c.engineWith(t, heavyBuffer, zap.NewNop())
		other, slow := callWatch(t.Context(), e, Request{Key: []byte("y")}), callWatch(t.Context(), e, Request{Key: []byte("b")})
		c.writeHeavy(900, "b")
		synctest.Wait()
		assert.Equal(t, []int{1}, c.watchers(), "the watch is paused")
		got := slow.readTo(400)
		assert.Equal(t, []int{1, 2}, c.ids(), "the stream of the others goes on")
		c.write(1, "y")
		assert.Equal(t, []int64{902}, other.read(1))
		assertRevisions(t, 2, 901, append(got, slow.readTo(901)...))
		time.Sleep(2 * returnInterval)
		assert.Equal(t, []int{1}, c.ids())
		assert.Equal(t, []int{2}, c.watchers())
	})
}

// Over a client of the program all watches share one stream.
func TestNoDedicatedStreamOverAForeignClient(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.become = func(sv *server) { sv.proxy, sv.fragment = true, 3 }
		cfg := c.config(heavyBuffer, zap.NewNop())
		cfg.Foreign = true
		e := New(cfg)
		t.Cleanup(e.Close)
		other := callWatch(t.Context(), e, Request{Key: []byte("y")})
		slow := callWatch(t.Context(), e, Request{Key: []byte("b"), Fragment: true})
		c.writeHeavy(900, "b")
		synctest.Wait()
		assert.Equal(t, []int{1}, c.watchers(), "the watch is paused")
		assertRevisions(t, 2, 901, slow.readTo(901))
		c.write(1, "y")
		assert.Equal(t, []int64{902}, other.read(1))
		assert.Equal(t, 1, c.opened)
	})
}

// dedicatedStreams returns the number of dedicated streams.
func (e *Engine) dedicatedStreams() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	count := 0
	for _, shards := range e.groups {
		for _, sh := range shards {
			if sh.dedicated {
				count++
			}
		}
	}
	return count
}
