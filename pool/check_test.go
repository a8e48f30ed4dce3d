package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/pool"
)

// TestCheck: what is wrong is replaced before it is lent, and who asked keeps its turn.
func TestCheck(t *testing.T) {
	inBubble(t, "idle", func(t *testing.T) {
		p, f := checkedPool(t, 0)
		a, b := acquire(t, p), acquire(t, p)
		a.Value().broken = true
		b.Release()
		a.Release()
		got := acquire(t, p)
		assert.Equal(t, b.Value(), got.Value())
		got.Release()
		assert.EqualValues(t, 1, p.Stats().Destroyed.CheckFailed)
		_, alive, _ := f.counts()
		assert.Equal(t, 1, alive)
	})
	inBubble(t, "all", func(t *testing.T) {
		p, f := checkedPool(t, 0)
		a, b := acquire(t, p), acquire(t, p)
		a.Value().broken, b.Value().broken = true, true
		a.Release()
		b.Release()
		acquire(t, p).Release()
		made, alive, _ := f.counts()
		assert.Equal(t, 3, made)
		assert.Equal(t, 1, alive)
	})
	inBubble(t, "handed over, and its waiter stays first", func(t *testing.T) {
		p, f := newPool(t, func(c *config) {
			c.MaxSize = 1
			c.Check = func(_ context.Context, x *thing) error {
				if x.broken {
					return errBroken
				}
				return nil
			}
		})
		r := acquire(t, p)
		first, second := acquiring(t.Context(), p), acquiring(t.Context(), p)
		r.Value().broken = true
		r.Release()
		got := <-first
		require.NoError(t, got.err)
		assert.Equal(t, 2, got.r.Value().id)
		assert.Empty(t, second)
		got.r.Release()
		(<-second).r.Release()
		_, _, most := f.counts()
		assert.Equal(t, 1, most)
	})
	inBubble(t, "made before anybody asked", func(t *testing.T) {
		var made []*thing
		f := &things{t: t}
		p, err := pool.New(config{Destroy: f.destroy, Check: f.check, MinSize: 1, Create: func(ctx context.Context) (*thing, error) {
			x, err := f.create(ctx)
			made = append(made, x)
			return x, err
		}})
		require.NoError(t, err)
		defer p.Close()
		synctest.Wait()
		made[0].broken = true
		r := acquire(t, p)
		assert.NotSame(t, made[0], r.Value())
		r.Release()
	})
	inBubble(t, "only what was idle for long", func(t *testing.T) {
		p, _ := checkedPool(t, time.Minute)
		r := acquire(t, p)
		r.Value().broken = true
		r.Release()
		time.Sleep(time.Minute - 1)
		again := acquire(t, p)
		assert.Equal(t, r.Value(), again.Value())
		again.Release()
		time.Sleep(time.Minute)
		other := acquire(t, p)
		assert.NotSame(t, r.Value(), other.Value())
		other.Release()
	})
	inBubble(t, "the caller's context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, _ := newPool(t, func(c *config) {
			c.Check = func(ctx context.Context, _ *thing) error {
				cancel()
				return ctx.Err()
			}
		})
		acquire(t, p).Release()
		_, err := p.Acquire(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, p.Stats().Size)
	})
	inBubble(t, "panic", func(t *testing.T) {
		p, _ := newPool(t, func(c *config) {
			c.MaxSize = 1
			c.Check = func(context.Context, *thing) error { panic(errBroken) }
		})
		acquire(t, p).Release()
		assert.PanicsWithValue(t, errBroken, func() { _, _ = p.Acquire(t.Context()) })
		assert.Zero(t, p.Stats().Size)
	})
}

func checkedPool(t *testing.T, after time.Duration) (*pool.Pool[*thing], *things) {
	f := &things{t: t}
	p, err := pool.New(config{Create: f.create, Destroy: f.destroy, Check: f.check, CheckAfter: after})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, f
}
