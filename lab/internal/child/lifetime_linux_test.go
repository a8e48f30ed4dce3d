package child_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/child"
)

// Linux ends a process with the thread that started it, and that is not the thread of
// the goroutine that asked.
func TestOutlivesTheThreadOfTheCaller(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var p *child.Process
	tid := onThreadThatEnds(func() { p, err = child.Start(cmd) })
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Kill())
		awaitExit(t, p)
	})
	task := fmt.Sprintf("/proc/self/task/%d", tid)
	require.Eventually(t, func() bool {
		_, err := os.Stat(task)
		return os.IsNotExist(err)
	}, soon, time.Millisecond, "the thread of the caller lives on")

	_, err = io.WriteString(in, "still here\n")
	require.NoError(t, err)
	require.NoError(t, out.(*os.File).SetReadDeadline(time.Now().Add(soon)))
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "still here\n", line)
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
	p, err := child.Start(exec.Command("true"))
	require.NoError(t, err)
	awaitExit(t, p)
	require.Error(t, p.Freeze())
}
