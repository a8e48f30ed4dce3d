package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/spf13/cobra"
)

// Exit statuses. A signal's are those that shells know: 128 and its number.
const (
	OK       = 0
	Negative = 1 // what was checked is not as it should be
	Failure  = 2 // the command could not do its work, or was not understood
)

// NegativeError ends a command whose answer is no: the exit status is [Negative].
type NegativeError string

func (e NegativeError) Error() string { return string(e) }

// Usage returns err as bad usage of cmd, with a line that points to its help.
func Usage(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w\nSee \"%s --help\"", err, cmd.CommandPath())
}

// Execute runs a command, prints its error, and returns the exit status. The standard logger is silent: net/http
// logs there what a server sends unasked.
func Execute(ctx context.Context, root *cobra.Command) int {
	log.SetOutput(io.Discard)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	root.PrintErrln(root.Name()+":", Clean(err.Error()))
	if errors.As(err, new(NegativeError)) {
		return Negative
	}
	if s, ok := errors.AsType[SignalError](err); ok {
		return s.exitStatus()
	}
	return Failure
}
