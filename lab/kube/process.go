package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/quorate/quorate/lab/internal/child"
)

// logTail is how much of the API server's log an error holds, in bytes.
const logTail = 4 << 10

// process is one run of a kube-apiserver.
type process struct {
	*child.Process
	log string // path of what it wrote
}

// spawn starts a process with its output going to a new file at log.
func spawn(s *child.Spawner, cmd *exec.Cmd, log string) (*process, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	defer func() { _ = output.Close() }() // the process has its copy
	cmd.Stdout, cmd.Stderr = output, output
	run, err := s.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("kube: start %s: %w", cmd.Path, err)
	}
	return &process{Process: run, log: log}, nil
}

// tail returns the last bytes of the process's log, for an error.
func (p *process) tail() string { return child.Tail(p.log, 0, logTail) }

// Restart starts the API server, on the same data and at the same URL, with the
// flags of Config.Args and then args, which only this run has. It returns when the
// API server is ready. When ctx, or two minutes, end first, the process is killed and
// the error holds the last lines of its log. While a process runs it fails with
// ErrRunning.
func (c *ControlPlane) Restart(ctx context.Context, args ...string) error {
	if err := checkArgs("args", args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c.starting.Lock()
	defer c.starting.Unlock()
	p, err := c.run(args)
	if err != nil {
		return err
	}
	if err := c.awaitReady(ctx, p); err != nil {
		_ = p.Kill()
		<-p.Exited()
		return fmt.Errorf("kube: kube-apiserver is not ready: %w\n%s", err, p.tail())
	}
	c.link.SetTarget(c.port.Address())
	return nil
}

// run starts a process.
func (c *ControlPlane) run(args []string) (*process, error) {
	flags, err := c.flags(c.port.Address(), args)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("kube: restart: %w", ErrClosed)
	}
	if c.process != nil && c.process.Alive() {
		return nil, fmt.Errorf("kube: restart: %w", ErrRunning)
	}
	cmd := exec.Command(c.cfg.Binary, flags...)
	cmd.Dir = c.files.dir
	p, err := spawn(c.spawner, cmd, c.files.log)
	if err != nil {
		return nil, err
	}
	c.process = p
	return p, nil
}

// Kill ends the API server at once (SIGKILL), a frozen one too, as a crash would, and
// returns when it is gone. Its data stays in etcd. Without a process it does nothing.
func (c *ControlPlane) Kill() error {
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.Kill(); err != nil {
		return fmt.Errorf("kube: kill: %w", err)
	}
	<-p.Exited()
	c.link.SetTarget("") // until the next one is ready
	return nil
}

// Stop freezes the API server (SIGSTOP), as a hung host would: connections stay up and
// are accepted by the kernel, nothing is answered. Without a process it fails with
// ErrNotRunning.
func (c *ControlPlane) Stop() error { return c.signal("stop", (*child.Process).Freeze) }

// Continue wakes an API server frozen by Stop (SIGCONT). On one that runs it does
// nothing; without a process it fails with ErrNotRunning.
func (c *ControlPlane) Continue() error { return c.signal("continue", (*child.Process).Continue) }

func (c *ControlPlane) signal(verb string, act func(*child.Process) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := ErrNotRunning
	if c.process != nil && c.process.Alive() {
		err = act(c.process.Process)
	}
	if err != nil {
		return fmt.Errorf("kube: %s: %w", verb, err)
	}
	return nil
}

// LogTail returns the last lines that the API server logged in its last run.
func (c *ControlPlane) LogTail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return ""
	}
	return c.process.tail()
}
