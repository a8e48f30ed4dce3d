package child

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attributes gives a process a group of its own, so that Ctrl-C reaches only this
// program, and makes the kernel kill the process, even if it is frozen, when the
// thread that started it ends. See Process.run.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until all threads of a process that was sent SIGSTOP have
// stopped. The signal alone does not ensure that: a thread keeps running until it
// next enters the kernel.
func awaitStop(pid int) error {
	const limit = 30 * time.Second
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var stopped unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &stopped, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil) // it leaves the end to Process.run
		if err != nil {
			return fmt.Errorf("process %d is gone: %w", pid, err)
		}
		if stopped.Signo != 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d was sent SIGSTOP and still runs after %v", pid, limit)
}
