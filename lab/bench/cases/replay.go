package cases

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/internal/fatal"
)

func replay() Case {
	return Case{
		Name:  "replay",
		About: "One watch of a prefix from the first of many puts that were made before, until the last is delivered.",
		Size:  60_000, ShortSize: 5_000,
		Members: 1, Backlog: true,
		Metrics: []Metric{
			{Name: "time", About: "replay {n} revisions of backlog", Unit: Seconds},
			{Name: "allocations", About: "allocations for each event of the backlog", Unit: Count},
		},
		Run: replayBacklog,
	}
}

func replayBacklog(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	before, start := allocations(), time.Now()
	w := c.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(site.Revision))
	fatal.If(readPuts(w, site.Size, site.Revision))
	took, after := time.Since(start), allocations()
	return Sample{"time": took.Seconds(), "allocations": (after - before) / float64(site.Size)}
}

func live() Case {
	return Case{
		Name: "live",
		About: "Another process makes puts from 16 goroutines while one watch of their prefix is read. The server sends " +
			"most of them in a response of its own.",
		Size: 20_000, ShortSize: 2_000,
		Members: 1,
		Metrics: []Metric{
			{Name: "allocations", About: "allocations for each live event", Unit: Count},
		},
		Run: liveEvents,
	}
}

func liveEvents(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	w := c.Watch(ctx, Prefix, clientv3.WithPrefix())
	written := make(chan error, 1)
	before := allocations()
	go func() { written <- site.Control.Put(ctx, site.Size) }()
	fatal.If(readPuts(w, site.Size, 0))
	after := allocations()
	fatal.If(<-written)
	return Sample{"allocations": (after - before) / float64(site.Size)}
}

// readPuts reads n puts, each of a revision of its own and the first of the given
// one unless it is 0. It fails if one is missing, repeated or out of order.
func readPuts(w clientv3.WatchChan, n int, revision int64) error {
	for n > 0 {
		events, err := next(w)
		if err != nil {
			return fmt.Errorf("%d events before the last: %w", n, err)
		}
		for _, ev := range events {
			if revision == 0 {
				revision = ev.Kv.ModRevision
			}
			if ev.Kv.ModRevision != revision || ev.Type != mvccpb.Event_PUT {
				return fmt.Errorf("the watch delivered %v in place of the put at revision %d", ev, revision)
			}
			revision++
			n--
		}
	}
	return nil
}

// allocations returns the number of those that the process has made since it began.
func allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}
