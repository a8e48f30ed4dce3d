package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		wait := func(took time.Duration) time.Duration {
			began := time.Now()
			b.Wait(t.Context(), took)
			return time.Since(began)
		}
		bounds := []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
			1600 * time.Millisecond, 3200 * time.Millisecond, 6400 * time.Millisecond, maxDelay, maxDelay,
		}
		for _, bound := range bounds {
			took := wait(maxDelay - 1)
			assert.GreaterOrEqual(t, took, bound/2)
			assert.Less(t, took, bound)
		}
		require.Less(t, wait(maxDelay), firstDelay, "a long attempt resets the delay")
	})
}

func TestBackoffEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{last: maxDelay}
		began := time.Now()
		b.Wait(grpctest.Within(t, time.Second), 0)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		start := time.Now()
		require.NoError(t, For(ctx, time.Minute))
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, context.DeadlineExceeded, For(ctx, time.Minute))
		require.Equal(t, 90*time.Second, time.Since(start))
		for range 100 {
			require.Equal(t, context.DeadlineExceeded, For(ctx, 0), "whichever comes first")
		}
	})
}
