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

// TestHandover measures how soon another process leads after the end of the one that led.
func TestHandover(t *testing.T) {
	const (
		rounds = 7
		ttl    = 3 * time.Second
	)
	ctx := labtest.Within(t, patience)
	bin := t.TempDir()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/quorate/quorate/examples/election").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cluster := labtest.Start(t, lab.Config{Members: 3})
	start := func() *candidate { return startCandidate(ctx, t, filepath.Join(bin, "election"), cluster, ttl) }
	for _, end := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGKILL, ttl + 500*time.Millisecond}, {syscall.SIGTERM, 100 * time.Millisecond}} {
		var took []time.Duration
		leader, next := start(), (*candidate)(nil)
		<-leader.leads
		for range rounds {
			next = start()
			time.Sleep(2 * time.Second) // it campaigns, and the leader's lease is renewed at some time
			began := time.Now()
			require.NoError(t, leader.Process.Signal(end.signal))
			took = append(took, (<-next.leads).Sub(began))
			_ = leader.Wait()
			leader = next
		}
		require.NoError(t, leader.Process.Signal(syscall.SIGTERM))
		require.NoError(t, leader.Wait())
		slices.Sort(took)
		t.Logf("%v: the next leads after %v in the median, %v at most", end.signal, took[rounds/2], took[rounds-1])
		assert.LessOrEqual(t, took[rounds-1], end.within, end.signal)
	}
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
