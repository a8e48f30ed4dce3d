package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
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
	of      *run
	request history.WatchRequest // all watches are on its keys
	watches []history.Watch
	next    history.WatchRequest
	pause   time.Duration // before the next watch
	reached atomic.Int64  // the highest revision of an event
}

func newReader(of *run, request history.WatchRequest) *reader {
	request.RequireLeader = of.conn.RequireLeader
	return &reader{of: of, request: request, next: request, pause: rewatchPause}
}

// watched returns the keys that a reader watches: every one, what a caller puts, its counters, or what it writes beside them, in turn.
func watched(prefix string, reader int) history.WatchRequest {
	if kind := reader % (1 + model.Keys); kind > 0 {
		prefix = fmt.Sprintf("%s%s/%d/", prefix, kindsOfKeys[kind-1], reader)
	}
	return history.WatchRequest{Key: prefix, RangeEnd: clientv3.GetPrefixRangeEnd(prefix)}
}

// run watches until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.watches = append(r.watches, r.watch(ctx))
		_ = pause.For(ctx, r.pause)
	}
}

// watch makes one watch and reads it to its end.
func (r *reader) watch(ctx context.Context) history.Watch {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, conn := r.of.env.Now, r.of.conn
	w := history.Watch{Request: r.next, End: history.EndedByItself}
	responses := conn.Watcher.Watch(ctx, r.next)
	w.Returned = now()
	failed := false
	for resp := range responses {
		resp.At = now()
		r.advance(resp)
		w.Responses = append(w.Responses, resp)
		failed = failed || resp.IsTerminal()
	}
	if ctx.Err() != nil && !failed { // a watch that has failed did so whatever happened then
		w.End = history.StillOpen
	}
	w.Ended = now()
	return w
}

// advance moves the revision from which the next watch is to begin. After a
// compaction that is the oldest one left: what is missing is for the checker to
// say.
func (r *reader) advance(resp history.WatchResponse) {
	next := r.next.StartRevision
	for _, e := range resp.Events {
		r.reached.Store(max(r.reached.Load(), e.ModRevision))
		next = e.ModRevision + 1
	}
	r.next.StartRevision = max(r.next.StartRevision, next, resp.CompactRevision)
}
