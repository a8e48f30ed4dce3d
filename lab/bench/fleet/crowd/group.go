package crowd

import (
	"context"
	"runtime"
	"sync"

	"github.com/quorate/quorate/lab/bench/client"
	"github.com/quorate/quorate/lab/bench/internal/cputime"
)

// opensAtOnce bounds how many clients one process opens at a time.
const opensAtOnce = 8

// group is the clients of one process.
type group struct {
	load    *load
	tally   tally
	before  memory // of the process without clients
	callers []*caller
	work    sync.WaitGroup
	cancel  context.CancelFunc
}

// openGroup opens the clients of a job. The group must be closed, after an error too.
func openGroup(ctx context.Context, j Job) (*group, error) {
	ctx, cancel := context.WithCancel(ctx)
	g := &group{load: newLoad(), before: inUse(), cancel: cancel}
	g.callers = make([]*caller, j.Clients)
	for i := range g.callers {
		c, err := client.Open(client.Config{Endpoints: j.Endpoints})
		if err != nil {
			g.callers = g.callers[:i]
			return g, err
		}
		g.callers[i] = &caller{client: c, ttl: j.TTL, interval: j.Interval, load: g.load, tally: &g.tally}
	}
	return g, Each(len(g.callers), opensAtOnce, func(i int) error { return g.callers[i].open(ctx, &g.work) })
}

// obey carries out an order and returns the state after it.
func (g *group) obey(o Order) State {
	g.load.set(o.Deadline)
	s := State{
		Started: g.tally.started.Load(), Answered: g.tally.answered.Load(), Failed: g.tally.failed.Load(),
		LeasesLost: g.tally.leasesLost.Load(), WatchesLost: g.tally.watchesLost.Load(),
		CPU: cputime.Used(),
	}
	for _, c := range g.callers {
		if o.Mark {
			c.firstAnswer.Store(0)
		}
		if at := c.firstAnswer.Load(); at != 0 {
			s.FirstAnswers = append(s.FirstAnswers, at)
		}
	}
	if o.Heap {
		now := inUse()
		s.Heap, s.Goroutines = now.bytes-g.before.bytes, now.goroutines-g.before.goroutines
	}
	return s
}

// close ends all clients and returns when they are gone.
func (g *group) close() {
	g.cancel()
	g.work.Wait()
	for _, c := range g.callers {
		c.client.Close()
	}
}

// memory is what a process has in use.
type memory struct {
	bytes, goroutines int64
}

// inUse measures after two garbage collections: the second frees what finalizers and
// pools held in the first.
func inUse() memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{bytes: int64(m.HeapAlloc + m.StackInuse), goroutines: int64(runtime.NumGoroutine())}
}
