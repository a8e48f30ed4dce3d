package faults

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness"
	"github.com/quorate/quorate/lab/robustness/history"
	"github.com/quorate/quorate/lab/robustness/report"
)

// load keeps a store busy with a mix of calls: callers of every kind, each of which
// waits for the end of a call and a short pause before its next. It also keeps
// watches and leases, as many as there are callers of a kind.
//
// The callers of a number have a few keys, and others after a second. One of them puts
// one key, another writes two others in txns, and gets read them all the time, so that
// a stale answer shows. No value is written twice.
//
// The watches are on what the callers write, see watched. They begin at
// one revision, before the first write, and when one ends by itself its reader goes
// on with another from where it stood; so all of them have to deliver every change of
// their keys.
//
// Each lease has a keeper, which attaches a key of its own to it and keeps it alive.
// The lease is lost when the client ends the keepalive; the keeper then grants another one.
type load struct {
	run *run

	halt  context.CancelFunc // stops further calls, and ends the keepers
	work  sync.WaitGroup     // of callers and keepers
	calls flight

	unwatch context.CancelFunc // ends the readers
	readers []*reader
	reading sync.WaitGroup

	groups groups
}

// startLoad starts the readers of watches and the keepers of leases, and startPause later, or when ctx ends, the callers. Then it
// returns. The watches begin at a revision; nothing may have been written under the prefix
// before. The load must be ended by stop, and then endWatches.
func (r *run) startLoad(ctx context.Context, revision int64) *load {
	l := &load{run: r, groups: groups{prefix: r.prefix, now: make([]group, r.cfg.Callers)}}
	l.calls.begun = new(sync.WaitGroup)
	var reading, going context.Context
	reading, l.unwatch = context.WithCancel(context.Background())
	going, l.halt = context.WithCancel(context.Background())
	for i := range r.cfg.Callers {
		if r.conn.Watcher != nil {
			reader := newReader(r, i, revision)
			l.readers = append(l.readers, reader)
			l.reading.Go(func() { reader.run(reading) })
		}
		if r.conn.Lessor != nil {
			l.work.Go(func() { l.keepLeases(going, i) })
		}
	}
	_ = pause.For(ctx, startPause)
	for i := range r.cfg.Callers {
		for k, kind := range report.Kinds {
			c := &caller{load: l, kind: kind, index: i, rng: rand.New(rand.NewPCG(r.cfg.Seed, uint64(k)<<32|uint64(i)))}
			l.work.Go(func() { c.run(going) })
		}
	}
	return l
}

// stop starts no further calls and returns when those under way have ended. The leases are no longer kept. The watches go on.
func (l *load) stop() {
	l.halt()
	l.work.Wait()
}

// endWatches ends the watches and returns when their channels have been closed.
func (l *load) endWatches() {
	l.unwatch()
	l.reading.Wait()
}

// watches returns all watches, numbered. They must have ended.
func (l *load) watches() []history.Watch {
	var all []history.Watch
	for _, r := range l.readers {
		all = append(all, r.watches...)
	}
	for i := range all {
		all[i].ID = i
	}
	return all
}

const (
	// startPause is the time in which watches are created and leases granted before the first call.
	startPause = 500 * time.Millisecond
	// settleTimeout bounds the wait for what the watches have not delivered when the cluster
	// has been healed and nothing is written any more. It is longer than a client
	// may take to notice that a connection is dead.
	settleTimeout = 20 * time.Second
	// settlePoll is the time between two looks at whether something is undelivered.
	settlePoll = 10 * time.Millisecond
	// settleGrace is how long the watches are read on when nothing is undelivered, so
	// that what is delivered twice is seen.
	settleGrace = 300 * time.Millisecond
)

// settleWatches returns settleGrace after each reader has taken the newest of the events of its keys, and after
// settleTimeout at the latest.
func (l *load) settleWatches(events []history.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for _, r := range l.readers {
		newest := r.request.Last(events, 0)
		for r.reached.Load() < newest {
			if pause.For(ctx, settlePoll) != nil {
				return
			}
		}
	}
	_ = pause.For(ctx, settleGrace) // no longer than settleTimeout in all
}

// flight knows which calls are under way.
type flight struct {
	mu    sync.Mutex
	begun *sync.WaitGroup // the calls that began since the last settle
}

// add notes that a call begins; the function that it returns notes its end.
func (f *flight) add() (done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun.Add(1)
	return f.begun.Done
}

// settle returns when the calls that began since the last settle have ended, or when ctx ends, with its error. A call ends by
// its deadline at the latest.
func (f *flight) settle(ctx context.Context) error {
	f.mu.Lock()
	begun := f.begun
	f.begun = new(sync.WaitGroup)
	f.mu.Unlock()
	select {
	case <-robustness.Go(1, func(int) { begun.Wait() }):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
