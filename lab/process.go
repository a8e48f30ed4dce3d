package lab

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/quorate/quorate/lab/internal/child"
)

// logTail is how much of a member's log an error holds, in bytes.
const logTail = 4 << 10

// process is one run of a member's etcd.
type process struct {
	*child.Process
	log      string        // path of what it wrote
	serving  chan struct{} // closed when it answers clients
	released chan struct{} // closed when, after its end, its links lead nowhere
}

// startProcess starts cmd with its output going to a new file at log, and with the read end of the parent's pipe.
func startProcess(s *child.Spawner, cmd *exec.Cmd, log string, parentPipe *os.File) (*process, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	defer func() { _ = output.Close() }() // the process has its copy
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{parentPipe} // it becomes parentPipeFD
	run, err := s.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", cmd.Path, err)
	}
	return &process{Process: run, log: log, serving: make(chan struct{}), released: make(chan struct{})}, nil
}

// tail returns the last bytes of the log, for an error.
func (p *process) tail() string { return child.Tail(p.log, logTail) }
