package watches

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

const (
	// settlePoll is the pause between two looks at a watch.
	settlePoll = 10 * time.Millisecond
	// leastProgress and mostProgress bound the pause between two calls of
	// RequestProgress for a group.
	leastProgress, mostProgress = 200 * time.Millisecond, 800 * time.Millisecond
	// progressTimeout bounds one such call.
	progressTimeout = 2 * time.Second
	// closeTimeout is how long a client may take to close its channels when the contexts of watches have ended.
	closeTimeout = 20 * time.Second
)

// readers are the readers of a run and what they saw.
type readers struct {
	clients []Client // each has as many of the watches
	now     func() time.Duration
	known   func() storeState

	ctx    context.Context // of all watches
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and those of each reading that change
	settled bool       // no watch is opened or left any more
	asked   int        // watches so far
	reading map[*reading]bool
	watches []history.Watch
}

// watch starts the readers. They must be ended.
func watch(clients []Client, env *robustness.Env, known func() storeState) *readers {
	ctx, cancel := context.WithCancel(context.Background())
	r := &readers{clients: clients, now: env.Now, known: known, ctx: ctx, cancel: cancel, reading: map[*reading]bool{}}
	for i := range readerCount {
		rng := env.Rand(readerStream + uint64(i))
		r.work.Go(func() { r.reader(rng) })
	}
	for i, g := range groups {
		if g.progress {
			rng := env.Rand(progressStream + uint64(i))
			r.work.Go(func() { r.requestProgress(g, rng) })
		}
	}
	return r
}

// requestProgress keeps requesting bookmarks for a group. A call that fails
// promises nothing.
func (r *readers) requestProgress(g group, rng *rand.Rand) {
	for pause.For(r.ctx, pace.Between(rng, leastProgress, mostProgress)) == nil {
		ctx, cancel := context.WithTimeout(g.context(r.ctx), progressTimeout)
		for _, c := range r.clients {
			_ = c.RequestProgress(ctx)
		}
		cancel()
	}
}

// open registers a watch that is about to be opened, unless the run settles.
func (r *readers) open(p plan) (*reading, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled || r.ctx.Err() != nil {
		return nil, false
	}
	x := &reading{plan: p, id: r.asked, opened: r.now()}
	r.asked++
	r.reading[x] = true
	return x, true
}

// leave marks a watch as left by its reader, unless the run settles.
func (r *readers) leave(x *reading) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.left = !r.settled
	return x.left
}

// close records a watch that is over.
func (r *readers) close(x *reading, watch history.Watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	watch.ID, watch.ProgressRequested = x.id, x.plan.group.progress
	if watch.End == history.StillOpen && x.left {
		watch.End = history.LeftByReader
	}
	delete(r.reading, x)
	r.watches = append(r.watches, watch)
}

// settle waits until every open watch has ended or has delivered the last event that it must deliver if it began when it was
// opened, whose revision last returns. It waits for the timeout at most. No watch is opened or left from now on.
func (r *readers) settle(timeout time.Duration, last func(r history.WatchRequest, opened time.Duration) int64) {
	ctx, cancel := context.WithTimeout(r.ctx, timeout)
	defer cancel()
	lasts := map[*reading]int64{} // by watch, since last scans the history
	for pending := true; pending && pause.For(ctx, settlePoll) == nil; {
		r.mu.Lock()
		r.settled, pending = true, false
		for x := range r.reading {
			if _, known := lasts[x]; !known {
				lasts[x] = last(x.plan.request, x.opened)
			}
			pending = pending || x.reached < lasts[x]
		}
		r.mu.Unlock()
	}
}

// end ends all watches and returns them. It fails if a client does not end them in time.
func (r *readers) end() ([]history.Watch, error) {
	r.cancel()
	err := robustness.Await(robustness.Go(1, func(int) { r.work.Wait() }), closeTimeout,
		"channels are not closed, or calls of Watch or RequestProgress do not return, although their contexts have ended")
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watches, err
}

// longestBreak bounds the pause of a reader between two watches.
const longestBreak = 200 * time.Millisecond

// reading is one watch while it is being read.
type reading struct {
	plan    plan
	id      int
	opened  time.Duration
	reached int64 // the last revision that it has delivered
	last    history.WatchResponse
	left    bool // its reader has left
}

// take learns from a response.
func (x *reading) take(r history.WatchResponse) {
	x.last = r
	if r.IsProgress() {
		x.reached = max(x.reached, r.Revision)
	}
	for _, e := range r.Events {
		x.reached = max(x.reached, e.ModRevision)
	}
}

// next returns the revision at which another watch can take over, 0 if the watch
// has not learnt any.
func (x *reading) next() int64 {
	switch {
	case x.last.CompactRevision > 0:
		return x.last.CompactRevision
	case x.reached > 0:
		return x.reached + 1
	default:
		return x.plan.request.StartRevision
	}
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
	c := r.clients[x.id%len(r.clients)]
	watch := client.Read(ctx, c, x.plan.request, r.now, func(response history.WatchResponse) {
		r.mu.Lock()
		x.take(response)
		slow := x.plan.pause > 0 && !r.settled
		r.mu.Unlock()
		if slow {
			_ = pause.For(ctx, x.plan.pause) // the channel is read to its end
		}
	})
	r.close(x, watch)
}
