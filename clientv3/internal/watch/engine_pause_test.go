package watch

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/quorate/quorate/clientv3/internal/lineage"
)

// fill is the number of responses with one event that exceeds the bound of a watch.
const fill = 1<<20/(2*eventOverhead) + 100

func TestSlowReaderGetsTheReasonOfLostEvents(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := callWatch(t.Context(), e, all(0))
		c.write(2*fill, "b")
		synctest.Wait()
		c.compact(2 * fill)
		var last Response
		seen := int64(1)
		for r := range w.ch {
			if last = r; len(r.Events) > 0 {
				seen++
				require.Equal(t, []int64{seen}, revisions(r.Events))
			}
		}
		assert.Less(t, seen, int64(2*fill))
		assert.EqualValues(t, 2*fill, last.CompactRevision)
		assert.Contains(t, last.CancelReason, "MaxWatchBufferBytes")
	})
}

func TestCancelledPausedWatchLeavesNoState(t *testing.T) {
	withEngine(t, func(t *testing.T, c *cluster, e *Engine) {
		w := callWatch(t.Context(), e, all(0))
		c.write(2*fill, "b")
		synctest.Wait()
		assert.Equal(t, []int{0}, c.watchers())
		w.cancel()
		synctest.Wait()
		assert.Empty(t, c.live())
		assert.EqualValues(t, 1, w.closes.Load())
	})
}

// unread returns a cluster at revision 101, and the size of a response with one event of a later revision.
func unread() (*cluster, int) {
	c := newCluster()
	c.write(100, "z")
	probe := newHistory()
	probe.events = append(probe.events, c.hist.events[2:]...)
	probe.write("b")
	return c, (&Response{Events: probe.between(&Request{Key: []byte("b")}, 0, probe.rev())}).size()
}

// The watch pauses when more than eight responses wait and resumes at four. One of them is in the caller's channel.
func TestAWatchPausesAndGoesOnAtItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, size := unread()
		core, logs := observer.New(zap.WarnLevel)
		e := c.engineWith(t, 8*size, zap.New(core))
		w := watches(t, e, 1)[0]
		next := int64(102)
		for range 5 {
			read := func(n int) {
				assertRevisions(t, next, next+int64(n)-1, w.read(n))
				next += int64(n)
				synctest.Wait()
			}
			c.write(8, "b")
			synctest.Wait()
			require.Equal(t, []int{1}, c.watchers(), "eight responses wait")
			c.write(1, "b")
			synctest.Wait()
			require.Equal(t, []int{0}, c.watchers(), "nine do")
			c.write(3, "b")
			read(4)
			require.Equal(t, []int{0}, c.watchers(), "five do")
			read(1)
			require.Equal(t, []int{1}, c.watchers(), "four do")
			assert.Equal(t, next+4, c.live()[0].srv.watchers[0].start, "the watch resumes where it paused")
			read(7)
			time.Sleep(slowReaderInterval)
		}
		require.Equal(t, 5, logs.Len(), "one log line for each pause, rate-limited")
		fields := logs.All()[0].ContextMap()
		assert.EqualValues(t, 111, fields["next-revision"])
		assert.EqualValues(t, 8*size, fields["max-unread-bytes"])
		assert.Equal(t, 1, c.opened)
	})
}

// Progress that is asked for while a watch is paused follows its unread events.
func TestProgressOfAPausedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, size := unread()
		e := c.engineWith(t, 8*size, zap.NewNop())
		calls := watches(t, e, 2)
		c.write(12, "b")
		assertRevisions(t, 102, 113, calls[1].read(12))
		synctest.Wait()
		require.Equal(t, []int{1}, c.watchers(), "one is paused")
		c.write(1, "z") // etcd answers nothing while a watch begins in the future
		require.NoError(t, e.RequestProgress(t.Context()))
		assertRevisions(t, 102, 113, calls[0].read(12))
		for _, w := range calls {
			r := <-w.ch
			require.Empty(t, r.Events)
			require.EqualValues(t, 114, r.Header.Revision)
		}
	})
}

// An engine that a program has dropped without Close is garbage once it has no watches.
func TestADroppedEngineIsGarbage(t *testing.T) {
	cfg := newCluster().config(1<<20, zap.NewNop())
	cfg.History = lineage.New(func(*lineage.Change) error { return nil })
	dropped := weak.Make(New(cfg))
	runtime.GC()
	require.Nil(t, dropped.Value())
	runtime.KeepAlive(cfg.History)
}

// Many watches without a reader run beside one whose reader keeps up. Each may hold 16 responses, all together 40.
func TestSlowReadersShareABudget(t *testing.T) {
	const slow, each, total, puts = 50, 16, 40, 200
	synctest.Test(t, func(t *testing.T) {
		c, size := unread()
		cfg := c.config(each*size, zap.NewNop())
		cfg.Budget = NewBudget(total * size)
		e := New(cfg)
		t.Cleanup(e.Close)
		calls := watches(t, e, slow)
		fast := watches(t, e, 1)[0]
		for rev := range int64(puts) {
			c.write(1, "b")
			require.Equal(t, []int64{102 + rev}, fast.read(1))
			synctest.Wait()
			require.LessOrEqual(t, cfg.Budget.used.Load(), int64((total+2*slow)*size), "each watch may exceed it by two responses, one of them in the channel")
		}
		require.Equal(t, []int{1}, c.watchers(), "paused watches have no watcher on the server")
		creates := c.creates
		time.Sleep(time.Hour)
		require.Equal(t, creates, c.creates)
		for _, w := range calls {
			assertRevisions(t, 102, 101+puts, w.read(puts))
		}
		synctest.Wait()
		assert.Equal(t, []int{slow + 1}, c.watchers())
		assert.Zero(t, cfg.Budget.used.Load())
	})
}

func TestAllowance(t *testing.T) {
	const mib = 1 << 20
	b := NewBudget(128 * mib)
	assert.Equal(t, 16*mib, b.allowance(16*mib))
	b.use(64 * mib)
	assert.Equal(t, 16*mib, b.allowance(16*mib), "one watch may use its whole bound")
	b.use(32 * mib)
	assert.Equal(t, 8*mib, b.allowance(16*mib), "a quarter of the free bytes")
	b.use(64 * mib)
	assert.Equal(t, 16*mib/1024, b.allowance(16*mib), "the minimum, when no bytes are free")
	b.use(-160 * mib)
	assert.Equal(t, 128*mib, b.left())
}
