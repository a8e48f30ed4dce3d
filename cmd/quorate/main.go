// Command quorate shows what Quorate, a fault-tolerant client for etcd, does.
//
// Exit status: 0 when all is well; 1 when a check of the lab found an
// acknowledged write missing, a read that went backwards, or another broken
// promise; 2 for every other failure, bad usage included; 128 and the number of
// the signal when a signal ended it early, such as 130 after Ctrl-C.
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

// Exit statuses.
const (
	exitOK        = 0
	exitViolation = 1
	exitFailure   = 2
)

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
	var violation violationError
	if errors.As(err, &violation) {
		return exitViolation
	}
	var interrupted signalError
	if errors.As(err, &interrupted) {
		return interrupted.status()
	}
	return exitFailure
}
