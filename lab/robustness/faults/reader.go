package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/history"
)

// rewatchPause is how long a reader waits before it watches again when its watch
// has ended by itself, so that a client which ends every watch at once is not
// asked in a tight loop.
const rewatchPause = 100 * time.Millisecond

// reader watches one scope from a revision on, for as long as the load runs. A
// watch that ends by itself is followed by another, from where it stood.
type reader struct {
	load    *load
	next    history.WatchRequest
	stands  func()
	watches []history.Watch
	reached atomic.Int64 // the highest revision of an event
}

func newReader(l *load, scope history.Scope, revision int64) *reader {
	from, end := scope.Range(l.run.rec.Prefix)
	return &reader{
		load: l, next: history.WatchRequest{Key: from, RangeEnd: end, StartRevision: revision},
		stands: sync.OnceFunc(l.standing.Done),
	}
}

// run watches until ctx ends.
func (r *reader) run(ctx context.Context) {
	defer r.stands()
	for ctx.Err() == nil {
		r.watches = append(r.watches, r.watch(ctx))
		_ = pause.For(ctx, rewatchPause)
	}
}

// watch makes one watch and reads it to its end.
func (r *reader) watch(ctx context.Context) history.Watch {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now, conn := r.load.run.env.Now, r.load.run.conn
	w := history.Watch{Request: r.next, Asked: now(), End: history.EndedByItself}
	w.Request.RequireLeader = w.Request.RequireLeader || conn.RequireLeader
	responses := conn.Watcher.Watch(ctx, r.next)
	w.Returned = now()
	r.stands()
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
