package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/bench/fleet/clients"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/servers"
)

const (
	// startsAtOnce bounds how many processes start at a time.
	startsAtOnce = 4
	// asksAtOnce bounds how many processes are asked at a time.
	asksAtOnce = 32
)

// fleet is all clients of one kind.
type fleet struct {
	processes []*process
	deadline  time.Duration // of the gets, 0 for none
}

// startFleet starts the clients and returns when they are ready. The fleet must be
// closed.
func startFleet(ctx context.Context, opts options, kind servers.Client, job clients.Job) (*fleet, error) {
	f := &fleet{processes: make([]*process, opts.processes)}
	var work errgroup.Group
	work.SetLimit(startsAtOnce)
	for i := range opts.processes {
		part := job
		part.Clients = (opts.clients + i) / opts.processes
		work.Go(func() (err error) {
			f.processes[i], err = startProcess(ctx, opts.program[kind], part)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// close ends all processes.
func (f *fleet) close() {
	var work sync.WaitGroup
	for _, p := range f.processes {
		if p != nil { // it has started
			work.Go(p.close)
		}
	}
	work.Wait()
}

// setLoad makes the clients do gets with a deadline, or none with 0.
func (f *fleet) setLoad(ctx context.Context, deadline time.Duration) {
	f.deadline = deadline
	f.command(ctx, clients.Command{})
}

// state returns what the clients have done.
func (f *fleet) state(ctx context.Context) clients.State { return f.command(ctx, clients.Command{}) }

// mark is state, and resets which clients have had an answer.
func (f *fleet) mark(ctx context.Context) clients.State {
	return f.command(ctx, clients.Command{Mark: true})
}

func (f *fleet) command(ctx context.Context, cmd clients.Command) (sum clients.State) {
	cmd.Deadline = f.deadline
	states := make([]clients.State, len(f.processes))
	var work errgroup.Group
	work.SetLimit(asksAtOnce)
	for i, p := range f.processes {
		work.Go(func() (err error) {
			states[i], err = p.call(ctx, cmd, answerTimeout)
			return err
		})
	}
	fatal.If(work.Wait())
	for _, s := range states {
		sum.Add(s)
	}
	return sum
}

const (
	// answerTimeout bounds a command.
	answerTimeout = 30 * time.Second
	// startTimeout bounds the start of a process and the first calls of its clients.
	startTimeout = time.Minute
	// exitTimeout bounds the end of a process. After it the process is killed.
	exitTimeout = 5 * time.Second
)

// process is the parent's side of a process of clients.
type process struct {
	stdin  io.Closer
	jobs   *json.Encoder
	states *json.Decoder
	kill   context.CancelFunc
	wait   func() string // returns what the process has written to its standard error
}

// startProcess starts a process with one OS thread for Go code, and returns when its
// clients are ready. The process ends with ctx.
func startProcess(ctx context.Context, program string, j clients.Job) (*process, error) {
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, "fleet")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		kill()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		kill()
		return nil, err
	}
	p := &process{stdin: stdin, jobs: json.NewEncoder(stdin), states: json.NewDecoder(stdout), kill: kill}
	p.wait = sync.OnceValue(func() string {
		_ = cmd.Wait() // a process that is ended early fails
		return stderr.String()
	})
	if _, err := p.call(ctx, j, startTimeout); err != nil {
		return nil, err
	}
	return p, nil
}

// call passes on a job or command and returns the state that answers it. After an error the process is gone.
func (p *process) call(ctx context.Context, request any, timeout time.Duration) (s clients.State, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer after %v", timeout))
	defer cancel()
	defer context.AfterFunc(ctx, p.kill)()
	if err = p.jobs.Encode(request); err == nil {
		err = p.states.Decode(&s)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // for which the process was killed
		}
		p.kill()
		err = fmt.Errorf("process of clients: %w: %s", err, strings.TrimSpace(p.wait()))
	}
	return s, err
}

// close ends the process and returns when it is gone.
func (p *process) close() {
	_ = p.stdin.Close() // a process that is gone has closed it
	timer := time.AfterFunc(exitTimeout, p.kill)
	defer timer.Stop()
	p.wait()
	p.kill()
}
