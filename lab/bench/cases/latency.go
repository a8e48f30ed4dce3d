package cases

import (
	"context"
	"time"

	"github.com/quorate/quorate/lab/internal/stats"
)

func latency() Case {
	return Case{
		Name:  "latency",
		About: "One put after the other to a watched key, from the call of Put until the watch has delivered it; medians.",
		Size:  2_000, ShortSize: 200,
		Members: 1,
		Metrics: []Metric{{Name: "time", About: "from a put to its event, no latency", Unit: Seconds}},
		Run:     putToEvent,
	}
}

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
	return Sample{"time": stats.Of(times).Median}
}
