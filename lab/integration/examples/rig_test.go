// Package examples_test runs the programs of examples on a real cluster.
package examples_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
)

// testTimeout is far above what a test takes; one that hangs is ended by it.
const testTimeout = 45 * time.Minute

func TestMain(m *testing.M) { labtest.Verify(m) }

// rig runs programs on a cluster of three members.
type rig struct {
	t       *testing.T
	ctx     context.Context
	bin     string
	cluster *lab.Cluster
	client  *clientv3.Client
	ran     map[string]bool
}

// newRig builds programs of examples, those that have changed if QUORATE_EXAMPLES names a folder that keeps them.
func newRig(t *testing.T, programs string) *rig {
	t.Helper()
	r := &rig{t: t, ctx: grpctest.Within(t, testTimeout), bin: cmp.Or(os.Getenv("QUORATE_EXAMPLES"), t.TempDir()), ran: map[string]bool{}}
	out, err := exec.CommandContext(r.ctx, "go", "build", "-ldflags=-s -w", "-o", r.bin+"/", "github.com/quorate/quorate/examples/"+programs).CombinedOutput()
	require.NoError(t, err, "%s", out)
	r.cluster = labtest.Start(t, lab.Config{Members: 3, Election: 2 * time.Second}) // a busy machine makes a leader late
	r.client = labtest.Client(t, clientv3.Config{Endpoints: r.cluster.Endpoints()})
	return r
}

// process is a running program.
type process struct {
	*exec.Cmd
	t     *testing.T
	ctx   context.Context
	lines chan string   // the lines of its standard output
	ended chan struct{} // closed when there are no more
	logs  bytes.Buffer
}

// maxLines is more than any program prints.
const maxLines = 10_000

// start starts a program.
func (r *rig) start(name string, args ...string) *process {
	r.t.Helper()
	r.ran[name] = true
	args = append([]string{"--endpoints", strings.Join(r.cluster.Endpoints(), ",")}, args...)
	p := &process{
		Cmd: exec.CommandContext(r.ctx, filepath.Join(r.bin, name), args...), t: r.t, ctx: r.ctx,
		lines: make(chan string, maxLines), ended: make(chan struct{}),
	}
	p.Stderr = &p.logs
	out, err := p.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, p.Start())
	go func() {
		defer close(p.ended)
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	return p
}

// says waits for the next line.
func (p *process) says(want string) {
	p.t.Helper()
	select {
	case line := <-p.lines:
		require.Equal(p.t, want, line)
	case <-p.ctx.Done():
		require.FailNow(p.t, "it was not said", want)
	}
}

// signal sends a signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(s))
}

// wait returns how the program has ended.
func (p *process) wait() error {
	<-p.ended
	return p.Wait()
}

// ends waits until the program has ended without an error, and compares the lines that were not read.
func (p *process) ends(want ...string) {
	p.t.Helper()
	require.NoError(p.t, p.wait(), "%s", &p.logs)
	var rest []string
	for line := range p.lines {
		rest = append(rest, line)
	}
	assert.Equal(p.t, want, rest, p.Path)
}

// kill ends a program with SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	require.Error(p.t, p.wait())
}

// value returns the value of a key, "" if there is none.
func (r *rig) value(key string) string {
	r.t.Helper()
	resp, err := r.client.Get(r.ctx, key)
	require.NoError(r.t, err)
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func (r *rig) leader() *lab.Member {
	r.t.Helper()
	leader, err := r.cluster.Leader(r.ctx)
	require.NoError(r.t, err)
	return leader
}
