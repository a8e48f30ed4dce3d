// Command quorate shows what Quorate, a fault-tolerant client for etcd, does.
//
// Its exit statuses are in the help: see newRootCommand.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/scenario"
)

// Exit statuses. A signal's are signalError.status.
const (
	exitOK       = 0
	exitNegative = 1 // what was checked is not as it should be
	exitFailure  = 2
)

// statusError is an error with an exit status of its own, in place of exitFailure.
type statusError interface {
	error
	status() int
}

func main() {
	lab.Main() // in a member of a cluster this does not return
	surviveClosedPipe()
	os.Exit(execute(untilSignal(), newRootCommand(newLabCommand(scenario.Run))))
}

// untilSignal returns a context that ends with the first Ctrl-C, SIGTERM or end of
// the terminal, as a signalError, so that what runs can end in good order. A
// Ctrl-C or SIGTERM after that ends the program at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	asked := make(chan os.Signal, 2)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	hangup := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(hangup, syscall.SIGHUP)
	}
	go func() {
		select {
		case s := <-asked:
			cancel(signalError{s})
		case s := <-hangup:
			cancel(signalError{s})
		}
		os.Exit(signalError{<-asked}.status())
	}()
	return ctx
}

// surviveClosedPipe makes writing to a standard output or error that nobody reads
// any more an error like others, rather than the end of the program.
func surviveClosedPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// signalError is the end of a context by a signal.
type signalError struct {
	signal os.Signal
}

func (e signalError) Error() string { return e.signal.String() }

// status returns the exit status that shells know for an end by the signal.
func (e signalError) status() int {
	if number, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitFailure
}

// execute runs a command, prints its error, and returns the exit status.
func execute(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	root.PrintErrln("quorate:", err)
	if own, ok := errors.AsType[statusError](err); ok {
		return own.status()
	}
	return exitFailure
}
