package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		start := time.Now()
		require.NoError(t, pause.For(ctx, time.Minute))
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, context.DeadlineExceeded, pause.For(ctx, time.Minute))
		require.Equal(t, 90*time.Second, time.Since(start))
		for range 100 {
			require.Equal(t, context.DeadlineExceeded, pause.For(ctx, 0), "whichever comes first")
		}
	})
}
