package watches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
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
)

// readers are the readers of a run and what they saw.
type readers struct {
	client Client
	now    func() time.Duration
	known  func() storeState

	ctx    context.Context // of all watches
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	settled  bool // no watch is opened or left any more
	asked    int  // watches so far
	reading  map[*reading]struct{}
	watches  []history.Watch
	failures []error
}

// watch starts n readers. They must be ended.
func watch(client Client, n int, env *robustness.Env, known func() storeState) *readers {
	ctx, cancel := context.WithCancel(context.Background())
	r := &readers{client: client, now: env.Now, known: known, ctx: ctx, cancel: cancel, reading: map[*reading]struct{}{}}
	for i := range n {
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

// requestProgress asks for bookmarks of a group all the time. A call that fails
// promises nothing.
func (r *readers) requestProgress(g group, rng *rand.Rand) {
	for pause.For(r.ctx, pace.Between(rng, leastProgress, mostProgress)) == nil {
		ctx, cancel := context.WithTimeout(g.context(r.ctx), progressTimeout)
		_ = r.client.RequestProgress(ctx)
		cancel()
	}
}

// open registers a watch that is about to be opened, unless the run settles.
func (r *readers) open(p plan) (*reading, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return nil, false
	}
	x := &reading{plan: p, done: make(chan struct{})}
	x.watch = history.Watch{ID: r.asked, Request: p.request, ProgressRequested: p.group.progress}
	r.asked++
	r.reading[x] = struct{}{}
	return x, true
}

// leave marks a watch as left by its reader, unless the run settles.
func (r *readers) leave(x *reading) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return false
	}
	x.left.Store(true)
	return true
}

// close records a watch that is over.
func (r *readers) close(x *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reading, x)
	r.watches = append(r.watches, x.watch)
	close(x.done)
}

func (r *readers) settling() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled
}

func (r *readers) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, err)
}

// settle waits until every open watch has delivered the last event that it must deliver,
// which last returns, or has ended, or until the timeout has passed; calls of Watch
// may take longer to return. No watch is opened or left from now on.
func (r *readers) settle(timeout time.Duration, last func(r history.WatchRequest, returned time.Duration) int64) {
	r.mu.Lock()
	r.settled = true
	open := slices.Collect(maps.Keys(r.reading))
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.ctx, timeout)
	defer cancel()
	longer := max(timeout, DefaultSettleTimeout)
	returning, cancel := context.WithTimeout(r.ctx, longer)
	defer cancel()
	anything := func(history.WatchRequest, time.Duration) int64 { return 0 }
	for _, x := range open {
		if x.settle(ctx, last) != nil && x.settle(returning, anything) != nil {
			r.fail(fmt.Errorf("%v: Watch did not return within %v of a healthy cluster", x.plan.request, longer))
		}
	}
}

// settle waits for one watch.
func (x *reading) settle(ctx context.Context, last func(history.WatchRequest, time.Duration) int64) error {
	for {
		if returned := x.returned.Load(); returned != 0 && x.reached.Load() >= last(x.plan.request, time.Duration(returned)) {
			return nil
		}
		select {
		case <-x.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
	}
}

// end ends all watches and returns them. The error tells of those that a client did
// not end in time.
func (r *readers) end() ([]history.Watch, error) {
	r.mu.Lock()
	r.settled = true
	for x := range r.reading {
		x.last.Store(true)
	}
	r.mu.Unlock()
	r.cancel()
	ended := make(chan struct{})
	go func() {
		r.work.Wait()
		close(ended)
	}()
	var late error
	select {
	case <-ended:
	case <-time.After(2 * closeTimeout):
		late = errors.New("calls of Watch or RequestProgress do not return although their contexts have ended")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watches, errors.Join(append(r.failures, late)...)
}
