// Package command is what the commands of the benchmarks share: exit statuses, and the flags by which they choose what they
// run, and how often.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	OK      = 0
	Failure = 1
	Usage   = 2
)

// UsageError says that the arguments are wrong.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.Err }

// Run does the work of a command. What is wrong with args is a [UsageError].
type Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// Main runs a command until a signal ends it, and exits.
func Main(name string, run Run) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := Status(ctx, name, os.Args[1:], os.Stdout, os.Stderr, run)
	stop()
	os.Exit(status)
}

// Status runs a command and returns its exit status.
func Status(ctx context.Context, name string, args []string, stdout, stderr io.Writer, run Run) int {
	err := run(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return OK
	}
	Progress(stderr)(name + ": " + err.Error())
	if errors.As(err, new(UsageError)) {
		return Usage
	}
	return Failure
}

// Progress returns a function that writes lines.
func Progress(w io.Writer) func(what string) {
	return func(what string) {
		_, _ = fmt.Fprintln(w, what) // nobody is left to hear that it failed
	}
}
