package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/internal/programs"
)

// sampleTimeout bounds one sample. The slowest, a resumption by the official
// client, takes about a minute.
const sampleTimeout = 5 * time.Minute

// measure runs a job in a process of its own, with control for its requests.
func measure(ctx context.Context, program string, j cases.Job, control cases.Control) (cases.Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("no result after %v", sampleTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "case")
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
		return nil, fmt.Errorf("%w%s", err, programs.Tail(stderr.String()))
	}
	return sample, nil
}

// converse gives the job to a process and returns its result.
func converse(ctx context.Context, j cases.Job, in io.Writer, out io.Reader, control cases.Control) (cases.Sample, error) {
	encoder, decoder := json.NewEncoder(in), json.NewDecoder(out)
	if err := encoder.Encode(j); err != nil {
		return nil, err
	}
	for {
		var m cases.Message
		if err := decoder.Decode(&m); err != nil {
			return nil, fmt.Errorf("the process of the client ended without a result: %w", err)
		}
		switch {
		case m.Error != "":
			return nil, errors.New(m.Error)
		case m.Request == nil:
			return m.Sample, nil
		}
		var a cases.Answer
		if err := fulfil(ctx, *m.Request, control); err != nil {
			a.Error = err.Error()
		}
		if err := encoder.Encode(a); err != nil {
			return nil, err
		}
	}
}

func fulfil(ctx context.Context, w cases.Request, control cases.Control) error {
	if w.Kill != "" {
		return control.Kill(ctx, w.Kill)
	}
	return control.Put(ctx, w.Put)
}
