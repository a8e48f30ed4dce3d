package load

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/history"
)

// rewatchPause is how long a reader waits before it watches again when its watch
// has ended by itself, so that a client which ends every watch at once is not
// asked in a tight loop.
const rewatchPause = 100 * time.Millisecond

// WatchLog records one watch. Its methods are not called concurrently.
type WatchLog interface {
	// Returned is called when the watch stands.
	Returned(at time.Duration)
	// Delivered is called with each response when the reader has taken it.
	Delivered(history.WatchResponse)
	// Ended is called once, when the channel has been closed.
	Ended(WatchEnd)
}

// WatchEnd says how a watch ended.
type WatchEnd struct {
	// Ending is [history.StillOpen] if the load ended the watch before its last
	// response said that it had failed, and otherwise [history.EndedByItself].
	Ending history.Ending
	// At is when the reader found the channel closed.
	At time.Duration
	// Code names the error of the last response, such as a gRPC status code; empty
	// for a watch that is StillOpen.
	Code string
	// Err is the error of the last response, nil if it had none.
	Err error
}

// noReason is the code of a watch whose channel was closed without an error.
const noReason = "no reason given"

// reader watches one scope from a revision on, for as long as the load runs. A
// watch that ends by itself is followed by another, from where it stood.
type reader struct {
	load  *Load
	index int
	req   history.WatchRequest
	stood sync.Once
}

func (l *Load) newReader(index int, scope history.Scope) *reader {
	from, end := scope.Range(l.cfg.Prefix)
	return &reader{load: l, index: index, req: history.WatchRequest{Key: from, RangeEnd: end, StartRevision: l.cfg.Revision}}
}

// run watches until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.watch(ctx)
		_ = pause.For(ctx, rewatchPause)
	}
}

// watch makes one watch and reads it to its end.
func (r *reader) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := r.load.cfg.Now
	log := r.load.recorder.Watch(r.index, r.req, now())
	responses := r.load.services.Watcher.Watch(ctx, r.req)
	log.Returned(now())
	r.stood.Do(r.load.stands)
	failed := false
	end := WatchEnd{Ending: history.EndedByItself, Code: noReason}
	for resp := range responses {
		resp.At = now()
		r.advance(resp)
		log.Delivered(resp)
		failed = failed || resp.IsTerminal()
		if resp.Err != nil {
			end.Code, end.Err = code(resp.Err), resp.Err
		}
	}
	if ctx.Err() != nil && !failed { // a watch that has failed did so whatever happened then
		end = WatchEnd{Ending: history.StillOpen}
	}
	end.At = now()
	log.Ended(end)
}

// advance moves the revision from which the next watch is to begin. After a
// compaction that is the oldest one left: what is missing is for the checker to
// say.
func (r *reader) advance(resp history.WatchResponse) {
	next := r.req.StartRevision
	if n := len(resp.Events); n > 0 {
		next = resp.Events[n-1].ModRevision + 1
	}
	r.req.StartRevision = max(r.req.StartRevision, next, resp.CompactRevision)
}
