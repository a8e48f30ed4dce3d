package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/linear/model"
)

// rewatchPause is how long a reader waits before it watches again when its watch
// has ended by itself, so that a client which ends every watch at once is not
// asked in a tight loop.
const rewatchPause = 100 * time.Millisecond

// reader watches some keys from a revision on, for as long as the load runs. A
// watch that ends by itself is followed by another, from where it stood.
type reader struct {
	run     *run
	request history.WatchRequest // of all watches, but for their start
	watches []history.Watch
	next    int64        // from where the next one starts
	reached atomic.Int64 // the highest revision of an event
}

// newReader returns the reader with a number. By turns, readers watch every key, what the caller with their number puts, its
// counters, and what it writes together with them.
func newReader(r *run, number int, revision int64) *reader {
	prefix := r.prefix
	if kind := number % (1 + model.Keys); kind > 0 {
		prefix = fmt.Sprintf("%s%s/%d/", prefix, keyNames[kind-1], number)
	}
	return &reader{run: r, next: revision, request: history.WatchRequest{
		Key: prefix, RangeEnd: clientv3.GetPrefixRangeEnd(prefix), RequireLeader: r.conn.RequireLeader,
	}}
}

// work watches until ctx ends.
func (r *reader) work(ctx context.Context) {
	for ctx.Err() == nil {
		request := r.request
		request.StartRevision = r.next
		r.watches = append(r.watches, client.Read(ctx, r.run.conn.Watcher, request, r.run.env.Now, r.advance))
		_ = pause.For(ctx, rewatchPause)
	}
}

// advance moves the revision from which the next watch is to begin: after a compaction, to the
// oldest one left. The checker finds what is missing.
func (r *reader) advance(resp history.WatchResponse) {
	for _, e := range resp.Events {
		r.reached.Store(max(r.reached.Load(), e.ModRevision))
		r.next = max(r.next, e.ModRevision+1)
	}
	r.next = max(r.next, resp.CompactRevision)
}
