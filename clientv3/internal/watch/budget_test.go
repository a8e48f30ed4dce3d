package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

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

// A fast reader has bursts of events after many slow readers, one after the other, have used the budget.
func TestFastReaderIsNotPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, size := unread()
		cfg := c.config(10*floor*size, zap.NewNop())
		cfg.Budget = NewBudget(80 * size)
		e := New(cfg)
		t.Cleanup(e.Close)
		for range 20 {
			watches(t, e, 1) // is never read
			c.write(100, "b")
			synctest.Wait()
			require.Equal(t, []int{0}, c.watchers())
		}
		other := watches(t, e, 1)[0]
		creates := c.creates
		for rev := int64(2102); rev < 2302; rev += 5 {
			c.write(5, "b")
			assertRevisions(t, rev, rev+4, other.read(5))
		}
		assert.Equal(t, creates, c.creates, "it is never paused")
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

// A catch-up in parts uses the client's budget, and returns it.
func TestCatchupUsesTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.write(20_000, "b")
		cfg := c.config(1<<20, zap.NewNop())
		e := New(cfg)
		t.Cleanup(e.Close)
		w := watch(t.Context(), e, all(2))
		got := w.read(1000)
		untilSplit(e)
		time.Sleep(time.Millisecond)
		assert.GreaterOrEqual(t, cfg.Budget.used.Load(), int64(1<<20))
		got = append(got, w.read(19_000)...)
		assertRevisions(t, 2, 20_001, got)
		synctest.Wait()
		assert.Zero(t, e.parts.Load())
		assert.Zero(t, cfg.Budget.used.Load())
	})
}
