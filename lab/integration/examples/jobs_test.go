package examples_test

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/jobs"
)

// period is a job in the hands of a handler; end is 0 if its process was killed.
type period struct {
	attempt    int
	begin, end int64
}

// handled is what processes of the example have printed.
type handled struct {
	reading sync.WaitGroup

	mu      sync.Mutex
	periods map[string][]*period
}

// read takes in what a process prints.
func (h *handled) read(p *process) {
	h.reading.Go(func() {
		held := make(map[string]*period)
		for line := range p.lines {
			var what, id string
			var attempt int
			var at int64
			_, err := fmt.Sscan(line, &what, &id, &attempt, &at)
			assert.NoError(p.t, err)
			h.mu.Lock()
			if what == "begin" {
				held[id] = &period{attempt: attempt, begin: at}
				h.periods[id] = append(h.periods[id], held[id])
			} else {
				held[id].end = at
			}
			h.mu.Unlock()
		}
	})
}

func (h *handled) begun() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.periods)
}

// jobs runs 50 workers in five processes over 250 jobs. The leader of etcd is frozen, and two processes are killed: no job
// is lost, none is handled twice at once, and each has one result.
func (r *rig) jobs() {
	r.t.Helper()
	const all = 250
	queue, err := jobs.New(r.client, jobs.Config{Name: "examples/jobs"})
	require.NoError(r.t, err)
	h := &handled{periods: make(map[string][]*period)}
	start := func(enqueue int) *process {
		p := r.start("jobs", "--workers", "10", "--ttl", leaseTTL, "--enqueue", fmt.Sprint(enqueue))
		h.read(p)
		return p
	}
	begun := func(n int) {
		r.t.Helper()
		for h.begun() < n {
			require.NoError(r.t, r.ctx.Err())
			time.Sleep(10 * time.Millisecond)
		}
	}
	processes := []*process{start(all), start(0), start(0), start(0), start(0)}
	begun(all / 5)
	processes[1].kill()
	processes[1] = start(0)
	begun(2 * all / 5)
	leader := r.leader()
	require.NoError(r.t, leader.Freeze())
	begun(3 * all / 5)
	processes[2].kill()
	processes[2] = start(0)
	begun(4 * all / 5)
	require.NoError(r.t, leader.Continue())
	begun(all)
	for {
		counts, err := queue.Count(r.ctx)
		require.NoError(r.t, err)
		require.Zero(r.t, counts.Dead)
		if counts == (jobs.Counts{}) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, p := range processes {
		p.signal(syscall.SIGTERM)
	}
	h.reading.Wait()
	for _, p := range processes {
		p.ends()
	}

	sent, err := r.client.Get(r.ctx, "examples/sent/", clientv3.WithPrefix())
	require.NoError(r.t, err)
	assert.Len(r.t, sent.Kvs, all)
	for _, kv := range sent.Kvs {
		assert.EqualValues(r.t, 1, kv.Version, "%s has one result", kv.Key)
	}
	assert.Len(r.t, h.periods, all)
	again := 0
	for id, periods := range h.periods {
		slices.SortFunc(periods, func(a, b *period) int { return a.attempt - b.attempt })
		for i := range periods[1:] {
			again++
			assert.Greater(r.t, periods[i+1].begin, max(periods[i].begin, periods[i].end), id)
		}
	}
	r.t.Logf("%d jobs, handled %d times again", all, again)
}
