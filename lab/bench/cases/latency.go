package cases

import (
	"context"
	"time"

	"github.com/quorate/quorate/lab/internal/stats"
)

// putToEvent makes one put after the other to a watched key, and times from the call of Put until the watch has delivered it. The
// time is the median.
func putToEvent(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	w := c.Watch(ctx, key(0))
	times := make([]float64, site.Size) // in seconds
	for i := range times {
		start := time.Now()
		check(ctx, c, w, key(0))
		times[i] = time.Since(start).Seconds()
	}
	return Sample{"time-s": stats.Of(times).Median}
}
