//go:build unix

package child_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorate/quorate/lab/internal/child"
)

// orphanEnv names the environment variable that turns the test program into one that
// freezes a process and waits to be killed.
const orphanEnv = "QUORATE_CHILD_TEST_ORPHAN"

const (
	// soon bounds every wait for what must happen.
	soon = 30 * time.Second
	// silence is how long a frozen process must write nothing.
	silence = 200 * time.Millisecond
)

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(orphanEnv); ok {
		runUntilKilled()
	}
	goleak.VerifyTestMain(m)
}

// runUntilKilled starts a process with the same output, freezes it and prints its id.
// The process ignores the SIGHUP by which the kernel would end it otherwise: a group
// that stands still and loses its last relative is sent one.
func runUntilKilled() {
	signal.Ignore(syscall.SIGHUP) // inherited
	cmd := exec.Command("sleep", "600")
	cmd.Stdout = os.Stdout
	p, err := child.NewSpawner().Start(cmd)
	if err == nil {
		err = p.Freeze()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

func newSpawner(t *testing.T) *child.Spawner {
	t.Helper()
	s := child.NewSpawner()
	t.Cleanup(s.Close)
	return s
}

// starter is Spawner.Start.
type starter func(*exec.Cmd) (*child.Process, error)

// run starts a process that is killed, at the latest, at the end of the test.
func run(t *testing.T, start starter, cmd *exec.Cmd) *child.Process {
	t.Helper()
	p, err := start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Kill())
		awaitExit(t, p)
	})
	return p
}

func awaitExit(t *testing.T, p *child.Process) {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(soon):
		t.Fatalf("process %d lives on", p.PID())
	}
}

// echo is a process that writes what it reads.
type echo struct {
	*child.Process
	in, out *os.File
	lines   *bufio.Reader // of out
}

func runEcho(t *testing.T, start starter) *echo {
	t.Helper()
	in, out := newPipe(t), newPipe(t)
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = in.read, out.write
	p := run(t, start, cmd)
	require.NoError(t, in.read.Close())
	require.NoError(t, out.write.Close())
	return &echo{Process: p, in: in.write, out: out.read, lines: bufio.NewReader(out.read)}
}

func (e *echo) tell(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(e.in, line)
	require.NoError(t, err)
}

// readLine returns the next line, or [os.ErrDeadlineExceeded] when none comes within d.
func (e *echo) readLine(t *testing.T, d time.Duration) (string, error) {
	t.Helper()
	require.NoError(t, e.out.SetReadDeadline(time.Now().Add(d)))
	return e.lines.ReadString('\n')
}

func (e *echo) requireAnswer(t *testing.T, line string) {
	t.Helper()
	got, err := e.readLine(t, soon)
	require.NoError(t, err)
	require.Equal(t, line, got)
}

type pipe struct{ read, write *os.File }

func newPipe(t *testing.T) pipe {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return pipe{read: r, write: w}
}
