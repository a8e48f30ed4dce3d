package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// outputDelay is how long output may take to arrive after the end of the process
// that wrote it.
const outputDelay = time.Second

// spawner starts processes from one thread that lives as long as the spawner does.
// Linux kills a member when the thread that started it ends, and goroutines are
// otherwise free to start it from a thread that ends early.
type spawner struct {
	requests chan spawnRequest
	done     chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *spawner) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	for r := range s.requests {
		r.result <- r.cmd.Start()
	}
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd: cmd, result: result}
	return <-result
}

// close ends the spawner. There must be no further start, and every process must
// have ended.
func (s *spawner) close() {
	close(s.requests)
	<-s.done
}

// process is one run of a member's etcd.
type process struct {
	cmd      *exec.Cmd
	log      *memberLog
	serving  chan struct{} // closed when it answers clients
	exited   chan struct{} // closed when it is gone and err is set
	released chan struct{} // closed when, after that, its links lead nowhere
	err      error
}

// startProcess starts cmd with its output going to log, on the leash, and with the
// member's file locked by it.
func startProcess(s *spawner, cmd *exec.Cmd, log *memberLog, leash *os.File, pidFile string) (*process, error) {
	lock, err := lockFile(pidFile, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", pidFile, err)
	}
	defer func() { _ = lock.Close() }() // the process holds its copy, and with it the lock, until it ends
	cmd.Stdout, cmd.Stderr = log.writer, log.writer
	cmd.ExtraFiles = []*os.File{leash, lock} // leash becomes leashFD
	cmd.SysProcAttr = memberAttributes()
	cmd.WaitDelay = outputDelay
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", cmd.Path, err)
	}
	p := &process{
		cmd:      cmd,
		log:      log,
		serving:  make(chan struct{}),
		exited:   make(chan struct{}),
		released: make(chan struct{}),
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if _, err := lock.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n"); err != nil {
		_ = p.signal(os.Kill)
		<-p.exited
		return nil, fmt.Errorf("lab: %s: %w", pidFile, err)
	}
	return p, nil
}

// signal sends a signal. A process that is gone already is no error.
func (p *process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// cause says how a process that is gone ended.
func (p *process) cause() error {
	if p.err != nil {
		return p.err
	}
	return errors.New("exit status 0")
}
