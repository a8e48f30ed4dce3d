package watches

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness/history"
)

// longestBreak bounds the pause of a reader between two watches.
const longestBreak = 200 * time.Millisecond

// reading is one watch while it is being read.
type reading struct {
	plan     plan
	watch    history.Watch
	returned bool  // Watch has
	reached  int64 // the revision that it has come to
	left     bool  // its reader has left
	last     bool  // it was open when the run ended
}

// take keeps a response.
func (x *reading) take(r history.WatchResponse, now time.Duration) {
	r.At = now
	x.watch.Responses = append(x.watch.Responses, r)
	if r.IsProgress() {
		x.reached = max(x.reached, r.Revision)
	}
	for _, e := range r.Events {
		x.reached = max(x.reached, e.ModRevision)
	}
}

// ending says how the reader parted from a watch whose channel is closed.
func (x *reading) ending() history.Ending {
	n := len(x.watch.Responses)
	switch {
	case n > 0 && x.watch.Responses[n-1].IsTerminal():
		return history.EndedByItself
	case x.left:
		return history.LeftByReader
	case x.last:
		return history.StillOpen
	default:
		return history.EndedByItself
	}
}

// next returns the revision at which another watch can take over, 0 if the watch
// has not learnt any.
func (x *reading) next() int64 {
	if n := len(x.watch.Responses); n > 0 {
		if last := x.watch.Responses[n-1]; last.IsTerminal() && last.CompactRevision > 0 {
			return last.CompactRevision
		}
	}
	if x.reached > 0 {
		return x.reached + 1
	}
	return x.plan.request.StartRevision
}

// reader watches, one watch after the other, until the run settles.
func (r *readers) reader(rng *rand.Rand) {
	p := newPlan(rng, r.known())
	for {
		x, ok := r.open(p)
		if !ok {
			return
		}
		r.read(x)
		if next := x.next(); next > 0 && rng.IntN(2) == 0 {
			p = p.again(rng, next)
		} else {
			p = newPlan(rng, r.known())
		}
		if pause.For(r.ctx, pace.Between(rng, 0, longestBreak)) != nil {
			return
		}
	}
}

// read reads a watch from its beginning to its end.
func (r *readers) read(x *reading) {
	ctx, cancel := context.WithCancel(x.plan.group.context(r.ctx))
	defer cancel()
	timer := time.AfterFunc(x.plan.life, func() {
		if r.leave(x) {
			cancel()
		}
	})
	defer timer.Stop()
	responses := r.client.Watch(ctx, x.plan.request)
	r.mu.Lock()
	x.watch.Returned, x.returned = r.now(), true
	r.mu.Unlock()
	for response := range responses {
		r.mu.Lock()
		x.take(response, r.now())
		slow := x.plan.pause > 0 && !r.settled
		r.mu.Unlock()
		if slow {
			_ = pause.For(ctx, x.plan.pause) // the channel is read to its end
		}
	}
	r.close(x)
}
