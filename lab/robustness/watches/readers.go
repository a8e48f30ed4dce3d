package watches

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/pace"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/client"
	"github.com/quorate/quorate/lab/robustness/history"
)

// group is a number of watches whose contexts have the same outgoing metadata, and
// which therefore may share a stream.
type group struct {
	// name in the metadata; empty for none.
	name string
	// requireLeader derives the contexts by clientv3.WithRequireLeader.
	requireLeader bool
	// progress tells that RequestProgress is called for the group.
	progress bool
}

// groups are the groups of a run. Most watches belong to the first.
var groups = []group{
	{},
	{},
	{name: "bookmarks", progress: true},
	{name: "leader", requireLeader: true},
	{name: "leader-bookmarks", requireLeader: true, progress: true},
}

// context returns a context of the group.
func (g group) context(ctx context.Context) context.Context {
	if g.name != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "soak-group", g.name)
	}
	if g.requireLeader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	return ctx
}

// plan is what a reader does with a watch.
type plan struct {
	request history.WatchRequest
	group   group
	// life is how long the watch is read before its reader leaves.
	life time.Duration
	// pause of the reader after each response.
	pause time.Duration
}

const (
	// shortestLife and longestLife bound the life of most watches.
	shortestLife, longestLife = time.Second, 12 * time.Second
	// veryLongLife bounds the life of the others, which meet many faults.
	veryLongLife = time.Minute
	// longestPause bounds the pause of a slow reader.
	longestPause = 50 * time.Millisecond
	// farthestBack and farthestAhead bound how far from the present a watch starts.
	farthestBack, farthestAhead = 400, 60
)

// storeState is the state of the store as a reader knows it when it makes a plan.
type storeState struct {
	// revision is about the current one.
	revision int64
	// compacted is the last revision that history was compacted to.
	compacted int64
}

// newPlan makes a plan for a watch.
func newPlan(rng *rand.Rand, known storeState) plan {
	p := plan{group: groups[rng.IntN(len(groups))]}
	p.request = history.WatchRequest{
		StartRevision:  startRevision(rng, known),
		PrevKV:         rng.IntN(2) == 0,
		ProgressNotify: rng.IntN(3) == 0,
		CreatedNotify:  rng.IntN(3) == 0,
		Fragment:       rng.IntN(2) == 0,
		NoPut:          rng.IntN(8) == 0,
		NoDelete:       rng.IntN(8) == 0,
		RequireLeader:  p.group.requireLeader,
	}
	p.request.Key, p.request.RangeEnd = keys(rng)
	p.behave(rng)
	return p
}

// behave chooses how long and how fast a watch is read.
func (p *plan) behave(rng *rand.Rand) {
	p.life, p.pause = pace.Between(rng, shortestLife, longestLife), 0
	if rng.IntN(5) == 0 {
		p.life = pace.Between(rng, longestLife, veryLongLife)
	}
	if rng.IntN(6) == 0 {
		p.pause = pace.Between(rng, 0, longestPause)
	}
}

// again returns the plan to take over where a watch of this one ended, as a program
// does that must not miss anything.
func (p plan) again(rng *rand.Rand, next int64) plan {
	p.request.StartRevision = next
	p.behave(rng)
	return p
}

// keys chooses what to watch.
func keys(rng *rand.Rand) (key, rangeEnd string) {
	switch n := rng.IntN(20); {
	case n < 7:
		return randomKey(rng), ""
	case n < 9:
		return quietKey, ""
	case n < 12:
		return keyPrefix + "a/", keyPrefix + "a0"
	case n < 15:
		return keyPrefix, "/soak0"
	case n < 18:
		return keyPrefix + "a/3", keyPrefix + "b/5"
	default:
		return keyPrefix + "b/", "\x00"
	}
}

// startRevision chooses where to start: anywhere from what has been compacted to
// the future.
func startRevision(rng *rand.Rand, known storeState) int64 {
	revision := int64(0)
	switch n := rng.IntN(20); {
	case n < 7:
		return 0
	case n < 11:
		revision = known.revision - rng.Int64N(farthestBack)
	case n < 14:
		revision = known.compacted + rng.Int64N(farthestBack/4)
	case n < 15:
		revision = known.compacted - 2 + rng.Int64N(5)
	case n < 17:
		revision = known.revision + 1 + rng.Int64N(farthestAhead)
	default:
		revision = known.revision + 1
	}
	return max(revision, 1)
}

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
