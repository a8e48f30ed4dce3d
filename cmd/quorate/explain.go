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
in them is explained once.

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

// maxLine is more than a line of a log has.
const maxLine = 1 << 20

func readLines(in io.Reader) ([]string, error) {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return nil, errors.New("explain needs an error, as an argument or on standard input")
	}
	var lines []string
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines, scanner.Err()
}

// explainAll prints what the errors in the arguments, or else on standard input, mean, each once.
func explainAll(cmd *cobra.Command, args []string, asJSON bool) error {
	lines := []string{strings.Join(args, " ")}
	if len(args) == 0 {
		var err error
		if lines, err = readLines(cmd.InOrStdin()); err != nil {
			return cli.Usage(cmd, err)
		}
	}
	seen := map[string]bool{}
	for _, line := range lines {
		e, ok := explain.Explain(line)
		if !ok || seen[e.Error] {
			continue
		}
		text := e.Text()
		if asJSON {
			object, err := json.Marshal(e)
			if err != nil {
				return err
			}
			text = string(object) + "\n"
		} else if len(seen) > 0 {
			text = "\n" + text
		}
		seen[e.Error] = true
		if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
			return fmt.Errorf("print the explanation: %w", err)
		}
	}
	if len(seen) == 0 {
		return cli.NegativeError("no error of etcd or gRPC that is known is in the text")
	}
	return nil
}
