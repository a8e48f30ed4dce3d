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
	"sync"
	"time"

	"github.com/quorate/quorate/lab/bench/fleet/clients"
	"github.com/quorate/quorate/lab/bench/internal/programs"
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
	stdin   io.WriteCloser
	encoder *json.Encoder
	decoder *json.Decoder
	kill    context.CancelFunc
	wait    func() string // returns what the process has written to its standard error
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
	p := &process{stdin: stdin, encoder: json.NewEncoder(stdin), decoder: json.NewDecoder(stdout), kill: kill}
	p.wait = sync.OnceValue(func() string {
		_ = cmd.Wait() // a process that is ended early fails
		return stderr.String()
	})
	if _, err := p.ask(ctx, j, startTimeout); err != nil {
		return nil, err
	}
	return p, nil
}

// ask sends a job or a command and returns the state that answers it. After an error
// the process is gone.
func (p *process) ask(ctx context.Context, what any, timeout time.Duration) (clients.State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer after %v", timeout))
	defer cancel()
	defer context.AfterFunc(ctx, p.kill)()
	var s clients.State
	err := p.encoder.Encode(what)
	if err == nil {
		err = p.decoder.Decode(&s)
	}
	if err == nil && s.Error != "" {
		err = errors.New(s.Error)
	}
	if err == nil {
		return s, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // for which the process was killed
	}
	p.kill()
	return s, fmt.Errorf("process of clients: %w%s", err, programs.Tail(p.wait()))
}

// close ends the process and returns when it is gone.
func (p *process) close() {
	_ = p.stdin.Close() // a process that is gone has closed it
	timer := time.AfterFunc(exitTimeout, p.kill)
	defer timer.Stop()
	p.wait()
	p.kill()
}
