package kube

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	signalStop     = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)

// childAttributes gives the process a group of its own, so that Ctrl-C reaches this
// program alone, and has the kernel kill it when the thread that started it ends, be
// it frozen or not.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until a process that was sent SIGSTOP stands still, which each of
// its threads does only when the kernel next looks at it.
func awaitStop(pid int) error {
	const limit = 5 * time.Second
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return fmt.Errorf("kube: stop: %w", err)
		}
		// The state follows the name, which is in parentheses and may hold anything.
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
		if bytes.HasPrefix(state, []byte("T")) {
			return nil
		}
	}
	return fmt.Errorf("kube: process %d was sent SIGSTOP and still runs after %v", pid, limit)
}
