package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context that ends with the first Ctrl-C, SIGTERM or end of
// the terminal, as a [SignalError], so that what runs can end properly. A
// Ctrl-C or SIGTERM after that ends the program at once.
func UntilSignal() context.Context {
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
			cancel(SignalError{s})
		case s := <-hangup:
			cancel(SignalError{s})
		}
		os.Exit(SignalError{<-asked}.ExitStatus())
	}()
	return ctx
}

// SurviveClosedPipe makes a write to a closed standard output or error fail, instead of ending the program.
func SurviveClosedPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// SignalError is the end of a context by a signal.
type SignalError struct {
	Signal os.Signal
}

func (e SignalError) Error() string { return e.Signal.String() }

// ExitStatus returns the exit status that shells know for an end by the signal.
func (e SignalError) ExitStatus() int {
	if number, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return Failure
}
