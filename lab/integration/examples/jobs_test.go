package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/jobs"
	"github.com/quorate/quorate/lab"
)

// period is a job in the hands of a handler; end is 0 if its process was killed.
type period struct {
	attempt    int
	begin, end int64
}

// workers are processes of the example jobs, and what they have printed.
type workers struct {
	t       *testing.T
	program func(args ...string) *exec.Cmd
	reading sync.WaitGroup

	mu      sync.Mutex
	periods map[string][]*period
}

// start starts a process with ten workers, which enqueues some jobs.
func (w *workers) start(enqueue int) *exec.Cmd {
	cmd := w.program("--workers", "10", "--ttl", "4s", "--enqueue", fmt.Sprint(enqueue))
	pipe, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	w.reading.Go(func() {
		held := make(map[string]*period)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var what, id string
			var attempt int
			var at int64
			_, err := fmt.Sscan(lines.Text(), &what, &id, &attempt, &at)
			assert.NoError(w.t, err)
			w.mu.Lock()
			if what == "begin" {
				held[id] = &period{attempt: attempt, begin: at}
				w.periods[id] = append(w.periods[id], held[id])
			} else {
				held[id].end = at
			}
			w.mu.Unlock()
		}
	})
	return cmd
}

func (w *workers) begun() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.periods)
}

// jobQueue runs 50 workers in five processes over 500 jobs. The leader of etcd is frozen, and two processes are killed: no job
// is lost, none is handled twice at once, and each has one result.
func jobQueue(ctx context.Context, t *testing.T, cluster *lab.Cluster, program func(args ...string) *exec.Cmd) {
	t.Helper()
	const all = 500
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	queue, err := jobs.New(client, jobs.Config{Name: "examples/jobs"})
	require.NoError(t, err)
	w := &workers{t: t, program: program, periods: make(map[string][]*period)}
	processes := []*exec.Cmd{w.start(all), w.start(0), w.start(0), w.start(0), w.start(0)}
	begun := func(n int) {
		t.Helper()
		for w.begun() < n {
			require.NoError(t, ctx.Err())
			time.Sleep(time.Millisecond)
		}
	}
	kill := func(i int) {
		require.NoError(t, processes[i].Process.Kill())
		require.Error(t, processes[i].Wait())
		processes[i] = w.start(0)
	}
	begun(all / 5)
	kill(1)
	begun(2 * all / 5)
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, leader.Stop())
	begun(3 * all / 5)
	kill(2)
	begun(4 * all / 5)
	require.NoError(t, leader.Continue())
	begun(all)
	for {
		counts, err := queue.Count(ctx)
		require.NoError(t, err)
		require.Zero(t, counts.Dead)
		if counts == (jobs.Counts{}) {
			break
		}
	}
	for _, p := range processes {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	}
	w.reading.Wait()
	for _, p := range processes {
		assert.NoError(t, p.Wait())
	}

	sent, err := client.Get(ctx, "examples/sent/", clientv3.WithPrefix())
	require.NoError(t, err)
	assert.Len(t, sent.Kvs, all)
	for _, kv := range sent.Kvs {
		assert.EqualValues(t, 1, kv.Version, "%s has one result", kv.Key)
	}
	assert.Len(t, w.periods, all)
	again := 0
	for id, periods := range w.periods {
		slices.SortFunc(periods, func(a, b *period) int { return a.attempt - b.attempt })
		for i := range periods[1:] {
			again++
			assert.Greater(t, periods[i+1].begin, max(periods[i].begin, periods[i].end), id)
		}
	}
	t.Logf("%d jobs, handled %d times again", all, again)
}
