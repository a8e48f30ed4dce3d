package faults

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/robustness/history"
)

// load keeps a store busy with a mix of calls: callers of every kind, each of which
// waits for the end of a call and a short pause before its next. It also keeps
// watches and leases, as many as there are callers of a kind.
//
// The callers with an index, one of each kind, have a few keys, and others after a second. One of
// them puts one key, another writes two others in txns, and gets read them all the time, so that a
// stale answer shows. No value is written twice.
//
// The watches are on what the callers write, see newReader. They begin at
// one revision, before the first write, and when one ends by itself its reader goes
// on with another from where it stood; so all of them have to deliver every change of
// their keys.
//
// Each lease has a keeper, which attaches a key of its own to it and keeps it alive.
// The lease is lost when the client ends the keepalive; the keeper then grants another one.
type load struct {
	halt    context.CancelFunc // stops further calls, and ends the keepers
	callers []*caller
	keepers []*keeper
	working sync.WaitGroup // callers and keepers

	unwatch context.CancelFunc // ends the readers
	readers []*reader
	reading sync.WaitGroup
}

// startLoad starts the readers of watches and the keepers of leases, and startPause later, or when ctx ends, the callers. Then it
// returns. The watches begin at a revision; nothing may have been written under the prefix
// before. The load must be ended by stop, and then endWatches.
func (r *run) startLoad(ctx context.Context, revision int64) *load {
	l := &load{}
	var reading, going context.Context
	reading, l.unwatch = context.WithCancel(context.Background())
	going, l.halt = context.WithCancel(context.Background())
	for i := range r.cfg.Callers {
		if r.conn.Watcher != nil {
			reader := newReader(r, i, revision)
			l.readers = append(l.readers, reader)
			l.reading.Go(func() { reader.work(reading) })
		}
		if r.conn.Lessor != nil {
			keeper := &keeper{run: r, index: i}
			l.keepers = append(l.keepers, keeper)
			l.working.Go(func() { keeper.work(going) })
		}
	}
	_ = pause.For(ctx, startPause)
	for i := range r.cfg.Callers {
		for k, kind := range kinds {
			rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(k)<<32|uint64(i)))
			c := &caller{run: r, kind: kind, index: i, rng: rng, busy: make(chan struct{}, 1)}
			l.callers = append(l.callers, c)
			l.working.Go(func() { c.work(going) })
		}
	}
	return l
}

// settle returns when the calls that are under way have ended, or when ctx ends, with its error.
func (l *load) settle(ctx context.Context) error {
	for _, c := range l.callers {
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop starts no further calls and returns when those under way have ended. The leases are no longer kept. The watches go on.
func (l *load) stop() {
	l.halt()
	l.working.Wait()
}

// endWatches ends the watches and returns when their channels have been closed.
func (l *load) endWatches() {
	l.unwatch()
	l.reading.Wait()
}

// calls returns all calls, in the order of their ends. The load must have been stopped.
func (l *load) calls() (all []call) {
	for _, c := range l.callers {
		all = append(all, c.calls...)
	}
	slices.SortStableFunc(all, func(a, b call) int { return cmp.Compare(a.Return, b.Return) })
	return all
}

// leases returns all leases. The load must have been stopped.
func (l *load) leases() (all []*lease) {
	for _, k := range l.keepers {
		all = append(all, k.leases...)
	}
	return all
}

// watches returns all watches, numbered. They must have ended.
func (l *load) watches() (all []history.Watch) {
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
