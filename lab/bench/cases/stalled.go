package cases

import (
	"context"
	"runtime/metrics"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/lab/internal/fatal"
)

// stalledReader stalls the reader of a watch while another process makes puts of 500 kB, and then reads all of them. Then it opens
// a watch from the first of them, and reads that after a second. Meanwhile another watch of the same client gets an event every 20
// ms. The memory is the largest heap, garbage included; the delays are the longest ones of the other watch.
func stalledReader(ctx context.Context, site Site) Sample {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := openConnected(ctx, site)
	defer func() { _ = c.Close() }()
	slow := c.Watch(ctx, Prefix, clientv3.WithPrefix())
	other := followOther(ctx, site, c)
	heap := watchHeap(ctx)
	fatal.If(site.Control.Put(ctx, site.Size))
	sample := Sample{"delay-s": other.worst()}
	first, _, err := readPuts(slow, site.Size)
	fatal.If(err)
	sample["delay-read-s"] = other.worst()
	behind := c.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(first))
	time.Sleep(time.Second)
	_, _, err = readPuts(behind, site.Size)
	fatal.If(err)
	sample["delay-backlog-s"] = other.worst()
	sample["memory-KB"] = float64(heap.Load()) / 1024
	cancel()
	fatal.If(<-other.ended)
	return sample
}

// watchHeap returns the largest size of the heap until ctx ends.
func watchHeap(ctx context.Context) *atomic.Uint64 {
	most := new(atomic.Uint64)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	go func() {
		for ctx.Err() == nil {
			metrics.Read(sample)
			most.Store(max(most.Load(), sample[0].Value.Uint64()))
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return most
}

// otherWatch is a watch whose events are timed.
type otherWatch struct {
	longest atomic.Int64
	waiting atomic.Int64 // since when an event has been due, in Unix nanoseconds; 0 if none is
	ended   chan error
}

// followOther watches a key with c, and writes it with a client of its own.
func followOther(ctx context.Context, site Site, c *clientv3.Client) *otherWatch {
	writer := openConnected(ctx, site)
	const key = "other"
	w := c.Watch(ctx, key)
	o := &otherWatch{ended: make(chan error, 1)}
	go func() {
		err := o.follow(ctx, w, func() error { _, err := writer.Put(ctx, key, ""); return err })
		_ = writer.Close()
		if ctx.Err() != nil {
			err = nil
		}
		o.ended <- err
	}()
	return o
}

// follow times from the end of a put to its event.
func (o *otherWatch) follow(ctx context.Context, w clientv3.WatchChan, put func() error) error {
	for ctx.Err() == nil {
		if err := put(); err != nil {
			return err
		}
		begun := time.Now()
		o.waiting.Store(begun.UnixNano())
		if _, err := next(w); err != nil {
			return err
		}
		o.longest.Store(max(o.longest.Load(), int64(time.Since(begun))))
		o.waiting.Store(0)
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// worst returns the longest delay since the last call, in seconds.
func (o *otherWatch) worst() float64 {
	worst := time.Duration(o.longest.Swap(0))
	if since := o.waiting.Load(); since != 0 {
		worst = max(worst, time.Since(time.Unix(0, since)))
	}
	return worst.Seconds()
}
