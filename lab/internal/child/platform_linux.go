package child

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// attributes gives a process a group of its own, so that Ctrl-C reaches this program
// alone, and has the kernel kill it when the thread that started it ends, be it
// frozen or not. See Spawner.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until a process that was sent SIGSTOP stands still, which the
// signal alone does not promise: each of its threads goes on until the kernel next
// looks at it.
func awaitStop(pid int) error {
	const limit = 5 * time.Second
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// The state follows the name, which is in parentheses and may hold
		// anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 0 && fields[0][0] == 'T' {
			return nil
		}
	}
	return fmt.Errorf("process %d was sent SIGSTOP and still runs after %v", pid, limit)
}
