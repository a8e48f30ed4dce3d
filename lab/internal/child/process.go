// Package child runs the processes of the lab's clusters: children of this program
// that end with it, that can be frozen and killed, and whose last lines of output
// become part of errors.
//
// [Start] starts a [Process]. On Linux the kernel kills the process, even a
// frozen one, when this program ends in any way. On macOS and the BSDs the process
// survives a crash of this program, unless it detects that itself. Everywhere it
// has a process group of its own, so that Ctrl-C reaches this program alone.
//
// The errors of this package do not say which process they are about: the caller
// adds its name.
package child

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/quorate/quorate/internal/pause"
)

// Process is a process that [Start] started. Its methods may be called from
// several goroutines.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone and err is set
	err    error
}

// Start starts cmd, whose SysProcAttr it sets. Its error is that of [exec.Cmd.Start].
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	return p, <-started
}

// run starts the process and waits for its end, in one thread: Linux kills a process when the thread that
// started it ends, and goroutines are otherwise free to start it from a thread that ends early.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = cmp.Or(p.cmd.Wait(), errors.New("exit status 0"))
	}
}

// PID returns the process id, which may belong to another process after the end of
// this one.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process is gone and its output
// has arrived, as far as [exec.Cmd].WaitDelay allows.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive reports whether the process exists. A frozen one does.
func (p *Process) Alive() bool { return !pause.Closed(p.exited) }

// Cause says how the process ended, and is an error for a successful end too. It must
// not be called before Exited is closed.
func (p *Process) Cause() error { return p.err }

// Kill ends the process at once (SIGKILL), a frozen one too, and does not wait for
// its end. On a process that is gone it does nothing.
func (p *Process) Kill() error { return p.signal(os.Kill) }

// Terminate asks the process to end (SIGTERM), which a frozen one does not notice
// before it continues. On a process that is gone it does nothing.
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Freeze stops the process (SIGSTOP), as a hung host would: what it has open stays
// open, and it does nothing. On Linux it returns when all of its threads stand still, and
// with an error when they do not within half a minute or the process is gone.
func (p *Process) Freeze() error {
	if err := p.signal(signalStop); err != nil {
		return err
	}
	return awaitStop(p.PID())
}

// Continue wakes a frozen process (SIGCONT). On one that runs, or is gone, it does
// nothing.
func (p *Process) Continue() error { return p.signal(signalContinue) }

// signal sends a signal. A process that is gone already is no error.
func (p *Process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Tail returns the last n bytes, or fewer, of the file at path, without the white space around them: the end of a log,
// for an error. For a file that cannot be read it returns "", because the error to report is another one.
func Tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text[max(len(text)-n, 0):]))
}
