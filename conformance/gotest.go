package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/fatal"
)

const (
	// packageTimeout ends a package that hangs. The slowest one takes a minute and a
	// half.
	packageTimeout = 10 * time.Minute
	// endTimeout is how long the go command and the tests may take to end after an
	// interrupt.
	endTimeout = 10 * time.Second
)

// event is one line of "go test -json"; "go doc test2json" explains its fields.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // the package of build output
	FailedBuild string  // the ImportPath of the failed build
}

// goTest runs the tests of a selection and hands the events of "go test -json" to take. That tests fail is no error. It ends with
// the first error, see package fatal.
func (b *build) goTest(ctx context.Context, opts options, stderr io.Writer, take func(event)) {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout=" + packageTimeout.String(), "-p=" + strconv.Itoa(opts.parallel)}
	if len(b.suite.fixtures) > 0 {
		// What "go test" puts before the command line of a test program: it changes to the build's folder.
		args = append(args, `-exec=sh -c 'cd "$0" && exec "$@"' "`+b.folder()+`"`)
	}
	cmd := b.goCommand(ctx, slices.Concat(args, b.flags, opts.arguments())...)
	cmd.Stderr = stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endTimeout
	out := fatal.OK(cmd.StdoutPipe())
	fatal.If(cmd.Start())
	decoded := eachEvent(out, take)
	_, _ = io.Copy(io.Discard, out) // so that it can end
	err := cmd.Wait()
	fatal.If(ctx.Err())
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil // the events tell why
	}
	fatal.If(errors.Join(decoded, err))
}

func eachEvent(r io.Reader, take func(event)) error {
	for events := json.NewDecoder(r); ; {
		var e event
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("go test -json printed what is no event: %w", err)
		}
		take(e)
	}
}
