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

	"github.com/quorate/quorate/lab/bench/fleet/clients"
)

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
