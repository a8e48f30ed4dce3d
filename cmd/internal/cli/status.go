package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// Exit statuses. A signal's are those that shells know: 128 and its number.
const (
	OK       = 0
	Negative = 1 // what was checked is not as it should be
	Failure  = 2 // the command could not do its work, or was not understood
)

// statusError is an error with an exit status of its own, in place of [Failure].
type statusError interface {
	error
	ExitStatus() int
}

// NegativeError ends a command whose answer is no: the exit status is [Negative].
type NegativeError string

func (e NegativeError) Error() string { return string(e) }

// ExitStatus returns [Negative].
func (NegativeError) ExitStatus() int { return Negative }

// Usage returns err as bad usage of cmd, with a line that points to its help.
func Usage(cmd *cobra.Command, err error) error {
	return usageError{err: err, command: cmd.CommandPath()}
}

type usageError struct {
	err     error
	command string // its path
}

func (e usageError) Error() string {
	return e.err.Error() + "\nSee \"" + e.command + " --help\"."
}

func (e usageError) Unwrap() error { return e.err }

// Execute runs a command, prints its error, and returns the exit status.
func Execute(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	root.PrintErrln(root.Name()+":", Clean(err.Error()))
	if own, ok := errors.AsType[statusError](err); ok {
		return own.ExitStatus()
	}
	return Failure
}
