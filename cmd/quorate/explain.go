package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/explain"
)

func newExplainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain ERROR",
		Short: "Say what an error of etcd or gRPC means, who may retry, and what to do",
		Long: `explain says what an error means: who makes it, what it proves, whether a write that
ended so was executed, whether and by whom it may be retried, and what to do.

ERROR is any text that has an error of etcd or gRPC in it, such as a line of a log, or the name
or number of a gRPC code. Without it, lines are read from standard input, and each error
in them is explained once, when its first line arrives.

The answers are those of the tables by which Quorate itself decides (docs/error-tables.md).

The exit status is 0 if an error was recognised, 1 if there is none that is known, and 2
if neither an argument nor standard input was given.`,
		Example: `  quorate explain etcdserver: request timed out
  quorate explain --json 'rpc error: code = Unavailable desc = error reading from server: EOF'
  journalctl -u shop | grep error | quorate explain`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ended := make(chan error, 1)
			go func() { ended <- explainAll(cmd, args, asJSON) }() // a signal does not end reading
			select {
			case err := <-ended:
				return err
			case <-cmd.Context().Done():
				return context.Cause(cmd.Context())
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object a line, for programs")
	return cmd
}

// maxLine, in bytes, is longer than the lines of logs. A longer line counts as several.
const maxLine = 1 << 20

// eachLine calls do with each line as soon as it arrives, until the input ends or do fails.
func eachLine(in io.Reader, do func(string) error) error {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return errors.New("explain needs an error, as an argument or on standard input")
	}
	reader := bufio.NewReaderSize(in, maxLine)
	for {
		line, _, err := reader.ReadLine()
		if err == nil {
			err = do(string(line))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// explainAll prints what the errors in the arguments, or else on standard input, mean, each once.
func explainAll(cmd *cobra.Command, args []string, asJSON bool) error {
	seen := map[string]bool{}
	one := func(line string) error {
		e, ok := explain.Explain(line)
		if !ok || seen[e.Error] {
			return nil
		}
		text := cli.Clean(e.Text())
		if asJSON {
			object, err := json.Marshal(e)
			if err != nil {
				return err
			}
			text = string(cli.CleanJSON(object)) + "\n"
		} else if len(seen) > 0 {
			text = "\n" + text
		}
		seen[e.Error] = true
		if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
			return fmt.Errorf("print the explanation: %w", err)
		}
		return nil
	}
	var err error
	if len(args) > 0 {
		err = one(strings.Join(args, " "))
	} else {
		err = eachLine(cmd.InOrStdin(), one)
	}
	if err == nil && len(seen) == 0 {
		err = cli.NegativeError("no error of etcd or gRPC that is known is in the text")
	}
	return err
}
