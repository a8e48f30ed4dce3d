package cases

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/internal/fatal"
)

// replayBacklog watches a prefix from the first of many puts that were made before, until the last is delivered.
func replayBacklog(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	before, start := allocations(), time.Now()
	w := c.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(site.Revision))
	fatal.If(readAll(w, site.Size, site.Revision))
	took, after := time.Since(start), allocations()
	return Sample{"time-s": took.Seconds(), "allocations": (after - before) / float64(site.Size)}
}

// liveEvents has another process make puts from 16 goroutines while one watch of their prefix is read. The server sends most of them
// in a response of its own.
func liveEvents(ctx context.Context, site Site) Sample {
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	w := c.Watch(ctx, Prefix, clientv3.WithPrefix())
	written := make(chan error, 1)
	before := allocations()
	go func() { written <- site.Control.Put(ctx, site.Size) }()
	fatal.If(readAll(w, site.Size, 0))
	after := allocations()
	fatal.If(<-written)
	return Sample{"allocations": (after - before) / float64(site.Size)}
}

// readAll reads n puts with one revision each, the first at the given revision unless that is 0. It fails if a put is missing,
// repeated or out of order.
func readAll(w clientv3.WatchChan, n int, revision int64) error {
	first, last, err := readPuts(w, n)
	if err == nil && (first != cmp.Or(revision, first) || last-first != int64(n)-1) {
		return fmt.Errorf("the watch delivered %d puts from revision %d to %d", n, first, last)
	}
	return err
}

// readPuts reads n puts, each of a higher revision than the one before.
func readPuts(w clientv3.WatchChan, n int) (first, last int64, err error) {
	for n > 0 {
		events, err := next(w)
		if err != nil {
			return 0, 0, fmt.Errorf("%d events before the last: %w", n, err)
		}
		for _, ev := range events {
			if ev.Kv.ModRevision <= last || ev.Type != mvccpb.Event_PUT {
				return 0, 0, fmt.Errorf("the watch delivered %v after revision %d", ev, last)
			}
			last = ev.Kv.ModRevision
			first = cmp.Or(first, last)
			n--
		}
	}
	return first, last, nil
}

// allocations returns the number of allocations of the process since it began.
func allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}
