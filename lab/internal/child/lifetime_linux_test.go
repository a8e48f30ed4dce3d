package child_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/child"
)

// A program that is killed takes its processes along, frozen ones too.
func TestEndsWithTheProgram(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	out := newPipe(t)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), orphanEnv+"=1")
	cmd.Stdout, cmd.Stderr = out.write, os.Stderr
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.NoError(t, out.write.Close())
	require.NoError(t, out.read.SetReadDeadline(time.Now().Add(soon)))
	heard := bufio.NewReader(out.read)
	line, err := heard.ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, "the program said: %s", line)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // reports the kill
	// The process has the other end of the pipe for as long as it exists.
	_, err = io.Copy(io.Discard, heard)
	if !assert.NoError(t, err, "process %d lives on", pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Linux ends a process with the thread that started it, and that is not the thread of
// the goroutine that asked.
func TestOutlivesTheThreadOfTheCaller(t *testing.T) {
	s := newSpawner(t)
	e := runEcho(t, func(cmd *exec.Cmd) (p *child.Process, err error) {
		tid := onThreadThatEnds(func() { p, err = s.Start(cmd) })
		task := fmt.Sprintf("/proc/self/task/%d", tid)
		require.Eventually(t, func() bool {
			_, err := os.Stat(task)
			return os.IsNotExist(err)
		}, soon, time.Millisecond, "the thread of the caller lives on")
		return p, err
	})
	e.tell(t, "still here\n")
	e.requireAnswer(t, "still here\n")
}

// onThreadThatEnds calls f on a thread that ends soon after it, and returns the
// thread's id.
func onThreadThatEnds(f func()) (tid int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if tid = syscall.Gettid(); tid != os.Getpid() {
			f()
			return
		}
		// The main thread does not end. While it is held, f gets another one.
		defer runtime.UnlockOSThread()
		tid = onThreadThatEnds(f)
	}()
	<-done
	return tid
}

func TestFreezeOfAProcessThatIsGone(t *testing.T) {
	p := run(t, newSpawner(t).Start, exec.Command("true"))
	awaitExit(t, p)
	require.Error(t, p.Freeze())
}
