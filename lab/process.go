package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/quorate/quorate/lab/internal/child"
)

// outputDelay is how long output may take to arrive after the end of the process
// that wrote it.
const outputDelay = time.Second

// process is one run of a member's etcd.
type process struct {
	*child.Process
	log      *memberLog
	serving  chan struct{} // closed when it answers clients
	released chan struct{} // closed when, after its end, its links lead nowhere
}

// startProcess starts cmd with its output going to log, with the read end of the parent's pipe, and with the
// member's file locked by it.
func startProcess(s *child.Spawner, cmd *exec.Cmd, log *memberLog, parentPipe *os.File, pidFile string) (*process, error) {
	lock, err := lockFile(pidFile, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", pidFile, err)
	}
	defer func() { _ = lock.Close() }() // the process holds its copy, and with it the lock, until it ends
	cmd.Stdout, cmd.Stderr = log.writer, log.writer
	cmd.ExtraFiles = []*os.File{parentPipe, lock} // parentPipe becomes parentPipeFD
	cmd.WaitDelay = outputDelay
	run, err := s.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", cmd.Path, err)
	}
	if _, err := lock.WriteString(strconv.Itoa(run.PID()) + "\n"); err != nil {
		_ = run.Kill()
		<-run.Exited()
		return nil, fmt.Errorf("lab: %s: %w", pidFile, err)
	}
	return &process{
		Process:  run,
		log:      log,
		serving:  make(chan struct{}),
		released: make(chan struct{}),
	}, nil
}
