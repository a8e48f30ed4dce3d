package examples_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
)

// counter runs processes of the example that count. The one that counts is frozen, and another one killed; the leader of
// etcd is frozen in between. The key has been written as often as its value says: no number is missing, and none is counted twice.
func counter(ctx context.Context, t *testing.T, cluster *lab.Cluster, program func(args ...string) *exec.Cmd) {
	t.Helper()
	const to = 1500
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
	require.NoError(t, err)
	defer client.Close()
	var reading sync.WaitGroup
	var counts atomic.Pointer[exec.Cmd] // the process that has begun to count last
	start := func() *exec.Cmd {
		cmd := program("--to", "1000000000", "--ttl", "3s") // it is ended
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		reading.Go(func() {
			for lines := bufio.NewScanner(pipe); lines.Scan(); {
				counts.Store(cmd)
			}
		})
		return cmd
	}
	counted := func(n int) {
		t.Helper()
		for got := -1; got < n; time.Sleep(time.Millisecond) {
			resp, err := client.Get(ctx, "examples/count")
			require.NoError(t, err)
			if resp.Count > 0 {
				got, err = strconv.Atoi(string(resp.Kvs[0].Value))
				require.NoError(t, err)
				assert.EqualValues(t, got, resp.Kvs[0].Version)
			}
		}
	}
	processes := map[*exec.Cmd]bool{start(): true, start(): true}
	counted(to / 5)
	frozen := counts.Load()
	require.NoError(t, frozen.Process.Signal(syscall.SIGSTOP))
	counted(2 * to / 5)
	leader, err := cluster.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, leader.Stop())
	require.NoError(t, frozen.Process.Signal(syscall.SIGCONT))
	counted(3 * to / 5)
	require.NoError(t, leader.Continue())
	killed := counts.Load()
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	delete(processes, killed)
	processes[start()] = true
	counted(to)
	for p := range processes {
		require.NoError(t, p.Process.Signal(os.Interrupt))
	}
	reading.Wait()
	for p := range processes {
		_ = p.Wait() // its last number may be lost with its context
	}
}
