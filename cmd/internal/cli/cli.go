// Package cli is what the programs of this module share: exit statuses, signals, errors of
// usage, and versions.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Root completes the root command of a program: errors are printed by [Execute], and bad usage
// points to the help. about follows the program's version in the output of "version": whole lines.
func Root(root *cobra.Command, about string) *cobra.Command {
	root.Version = readVersion(root.Name()) + about
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(Usage)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages ", "FlagUsagesWrapped 120 "))
	root.AddCommand(newVersionCommand(root.Version))
	return root
}

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

func newVersionCommand(text string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `version prints the version of this program, which names the revision if it was built
from one, and the Go release that built it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// readVersion returns what a program says of its own version.
func readVersion(name string) string {
	info, _ := debug.ReadBuildInfo() // nil without one
	return versionOf(name, cmp.Or(info, &debug.BuildInfo{}))
}

func versionOf(name string, info *debug.BuildInfo) string {
	return fmt.Sprintf("%s %s\n%s %s/%s\n", name, cmp.Or(info.Main.Version, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Table writes lines in columns; "-" stands for what is not known. Characters that control a
// terminal become spaces: cells may come from elsewhere.
func Table(b *strings.Builder, lines [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for i, c := range cells {
			if c == "" && i < len(cells)-1 {
				c = "-"
			}
			cells[i] = OneLine(c)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // b takes everything
	}
	_ = w.Flush() // to b
}

// OneLine is [Clean] for a text that is to stay on its line.
func OneLine(text string) string { return strings.ReplaceAll(Clean(text), "\n", " ") }

// Clean replaces characters that control a terminal by spaces, but not the ends of lines. It is for texts that come from elsewhere.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}, text)
}

// CleanJSON escapes characters that control a terminal in a JSON text, which stays the same for programs: encoding/json escapes
// those of ASCII alone.
func CleanJSON(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if unicode.IsPrint(r) || r == '\n' {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Count returns a number of things, whose name gets an s unless there is one.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Milliseconds formats a time, "" for 0.
func Milliseconds(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f s", v/1000)
}
