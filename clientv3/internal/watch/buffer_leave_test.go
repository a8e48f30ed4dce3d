package watch

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A caller cancels a watch and then reads what is still in its channel, while the goroutine ends and further responses
// arrive.
func TestDrainAfterCancelHasNoGap(t *testing.T) {
	for range 20_000 {
		b := newBuffered()
		for n := range int64(3) {
			b.push(numbered(n), b.start)
		}
		close(b.left)
		var pusher sync.WaitGroup
		pusher.Go(func() {
			for n := int64(3); n < 40; n++ {
				b.push(numbered(n), b.start)
			}
			b.drop()
		})
		got := b.rest()
		pusher.Wait()
		b.pumps.Wait()
		require.NotEmpty(t, got)
		want := make([]int64, len(got))
		for i := range want {
			want[i] = int64(i)
		}
		require.True(t, slices.Equal(want, got), "%v", got)
		require.EqualValues(t, 1, b.closes.Load())
	}
}
