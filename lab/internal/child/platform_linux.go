package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
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
		stopped, err := allStopped(pid)
		if err != nil || stopped {
			return err
		}
	}
	return fmt.Errorf("process %d was sent SIGSTOP and still runs after %v", pid, limit)
}

// allStopped reports whether all threads of a process are stopped. Threads that are gone do not count, but one must be
// left.
func allStopped(pid int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	left := false
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, thread.Name(), "stat"))
		if err != nil {
			continue
		}
		// The state follows the name, which is in parentheses and may hold
		// anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		switch {
		case len(fields) == 0 || bytes.ContainsAny(fields[0], "ZX"):
			continue
		case string(fields[0]) != "T":
			return false, nil
		}
		left = true
	}
	if !left {
		return false, fmt.Errorf("process %d is gone", pid)
	}
	return true, nil
}
