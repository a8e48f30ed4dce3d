package child

import (
	"os/exec"
	"runtime"
)

// Spawner starts processes from one thread that lives as long as the spawner does.
// Linux kills a process when the thread that started it ends, and goroutines are
// otherwise free to start it from a thread that ends early.
type Spawner struct {
	requests chan request
	done     chan struct{}
}

type request struct {
	cmd    *exec.Cmd
	result chan<- error
}

// NewSpawner returns a spawner, which must be closed.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan request), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *Spawner) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	for r := range s.requests {
		r.result <- r.cmd.Start()
	}
}

// Start starts cmd, whose SysProcAttr it sets. Its error is that of [exec.Cmd.Start].
// It may be called from several goroutines.
func (s *Spawner) Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	result := make(chan error, 1)
	s.requests <- request{cmd: cmd, result: result}
	if err := <-result; err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go p.wait()
	return p, nil
}

// Close ends the spawner. There must be no further Start, and every process must
// have ended.
func (s *Spawner) Close() {
	close(s.requests)
	<-s.done
}
