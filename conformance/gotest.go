package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

const (
	// packageTimeout ends a package that hangs. The slowest one takes a minute and a
	// half.
	packageTimeout = 10 * time.Minute
	// goodbye is how long the go command and the tests are given to end after they
	// were interrupted.
	goodbye = 10 * time.Second
)

// goTest runs the tests of a selection and hands each line of what "go test -json"
// prints to take. That tests fail is no error.
func (b build) goTest(ctx context.Context, opts options, stderr io.Writer, take func(line []byte) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout=" + packageTimeout.String(), "-p=" + strconv.Itoa(opts.parallel)}
	if len(b.suite.fixtures) > 0 {
		args = append(args, "-exec="+b.launcher())
	}
	cmd := b.goCommand(running, slices.Concat(args, b.flags, opts.arguments())...)
	cmd.Stderr = stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = goodbye
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	taken := eachLine(out, take)
	if taken != nil {
		stop()
		_, _ = io.Copy(io.Discard, out) // so that it can end
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit):
		err = nil // the results tell why
	}
	return errors.Join(taken, err)
}

// launcher returns what "go test" puts before the command line of a test program:
// it changes to the build's folder.
func (b build) launcher() string {
	return `sh -c 'cd "$0" && exec "$@"' "` + b.folder() + `"`
}

// eachLine hands the lines of r, which may be of any length, to take.
func eachLine(r io.Reader, take func(line []byte) error) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := take(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
