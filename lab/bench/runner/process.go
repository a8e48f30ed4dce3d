package runner

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
	"time"

	"github.com/quorate/quorate/lab/bench/cases"
)

// sampleTimeout bounds one sample. The slowest, a resumption by the official
// client, takes about a minute.
const sampleTimeout = 5 * time.Minute

// measure runs a job in a process of its own, with control to fulfil its wishes.
func measure(ctx context.Context, j job, control cases.Control) (cases.Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("no result after %v", sampleTimeout))
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args[0] = childProgram
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	sample, err := converse(ctx, j, stdin, stdout, control)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // for which the process was ended
	}
	if err != nil {
		cancel() // it may never end by itself
	}
	if waitErr := cmd.Wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, tail(stderr.String()))
	}
	return sample, nil
}

// converse gives the job to a process and returns its result.
func converse(ctx context.Context, j job, in io.Writer, out io.Reader, control cases.Control) (cases.Sample, error) {
	encoder, decoder := json.NewEncoder(in), json.NewDecoder(out)
	if err := encoder.Encode(j); err != nil {
		return nil, err
	}
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			return nil, fmt.Errorf("the process of the client ended without a result: %w", err)
		}
		switch {
		case m.Error != "":
			return nil, errors.New(m.Error)
		case m.Wish == nil:
			return m.Sample, nil
		}
		var a answer
		if err := m.Wish.fulfil(ctx, control); err != nil {
			a.Error = err.Error()
		}
		if err := encoder.Encode(a); err != nil {
			return nil, err
		}
	}
}

func (w wish) fulfil(ctx context.Context, control cases.Control) error {
	if w.Kill != "" {
		return control.Kill(ctx, w.Kill)
	}
	return control.Put(ctx, w.Put)
}

// tailLines is how much of what a process has logged is part of an error.
const tailLines = 20

func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if lines[0] == "" {
		return ""
	}
	return "\n" + strings.Join(lines[max(len(lines)-tailLines, 0):], "\n")
}
