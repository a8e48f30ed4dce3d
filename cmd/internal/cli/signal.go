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
	asked, signals := make(chan os.Signal, 2), []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	signal.Notify(asked, signals...)
	go func() {
		cancel(SignalError((<-asked).(syscall.Signal)))
		for s := range asked {
			if s != syscall.SIGHUP { // a terminal may send it more than once
				os.Exit(SignalError(s.(syscall.Signal)).exitStatus())
			}
		}
	}()
	return ctx
}

// SurviveClosedPipe makes a write to a closed standard output or error fail, instead of ending the program.
func SurviveClosedPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// SignalError is the end of a context by a signal.
type SignalError syscall.Signal

func (e SignalError) Error() string { return syscall.Signal(e).String() }

// exitStatus returns the exit status that shells know for an end by the signal.
func (e SignalError) exitStatus() int { return 128 + int(e) }
