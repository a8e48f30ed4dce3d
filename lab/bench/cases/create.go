package cases

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// oneWay is the latency of the links in the cases that have any: a round trip of
// 2 ms.
const oneWay = time.Millisecond

func creation() Case {
	return Case{
		Name:  "create",
		About: "Watch is called for all keys at the same time; the time is that until the last call has returned.",
		Size:  10_000, ShortSize: 500, MaxRepeat: 3,
		Members: 1, Latency: oneWay,
		Metrics: []Metric{{Name: "time", About: "create {n} watches, 2 ms round trip", Unit: Seconds}},
		Run:     create,
	}
}

func create(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	watches := make([]clientv3.WatchChan, site.Size)
	callers := startCallers(site.Size)
	defer callers.stop()
	start := time.Now()
	callers.watchAll(c, watches, func(i int) target { return target{ctx: ctx, key: key(i)} })
	took := time.Since(start)
	spotCheck(ctx, c, watches)
	return Sample{"time": took.Seconds()}
}
