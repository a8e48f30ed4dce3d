//go:build experiment

package examples_test

import (
	"bufio"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// TestHandover measures how soon another process leads after the leader ends. One that ends after SIGTERM resigns: its lease
// would last for a minute.
func TestHandover(t *testing.T) {
	const rounds = 7
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/quorate/quorate/examples/election").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ctx := labtest.Within(t, patience)
	cluster := labtest.Start(t, lab.Config{Members: 3})
	measure := func(signal syscall.Signal, ttl time.Duration) (longest time.Duration) {
		start := func() *candidate { return startCandidate(ctx, t, filepath.Join(bin, "election"), cluster, ttl) }
		var took []time.Duration
		leader := start()
		<-leader.leads
		for range rounds {
			next := start()
			time.Sleep(2 * time.Second) // it campaigns, and the leader's lease is renewed at some time
			began := time.Now()
			require.NoError(t, leader.Process.Signal(signal))
			took = append(took, (<-next.leads).Sub(began))
			_ = leader.Wait()
			leader = next
		}
		require.NoError(t, leader.Process.Signal(syscall.SIGTERM))
		require.NoError(t, leader.Wait())
		slices.Sort(took)
		t.Logf("%v: the next leads after %v in the median, %v at most", signal, took[rounds/2], took[rounds-1])
		return took[rounds-1]
	}
	measure(syscall.SIGKILL, 3*time.Second)
	assert.Less(t, measure(syscall.SIGTERM, time.Minute), time.Minute)
}

// candidate is a process of the example; leads has when it leads.
type candidate struct {
	*exec.Cmd
	leads chan time.Time
}

func startCandidate(ctx context.Context, t *testing.T, path string, cluster *lab.Cluster, ttl time.Duration) *candidate {
	t.Helper()
	c := &candidate{
		Cmd:   exec.CommandContext(ctx, path, "--endpoints", strings.Join(cluster.Endpoints(), ","), "--term", "1h", "--ttl", ttl.String()),
		leads: make(chan time.Time, 1),
	}
	pipe, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	go func() {
		if lines := bufio.NewScanner(pipe); lines.Scan() {
			c.leads <- time.Now()
		}
	}()
	return c
}
