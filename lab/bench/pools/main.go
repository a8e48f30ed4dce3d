// Command pools measures the pools side by side with what they replace, in the same run,
// and prints medians and their ratios to the first line of each table.
//
//	go run ./lab/bench/pools                     everything, five minutes
//	go run ./lab/bench/pools --run 'limit|mixed'
//	go run ./lab/bench/pools --short             a few seconds, to see that it works
//
// The pool of gRPC connections (grpcpool) is compared with one connection, and with several
// that calls go to in turn, which is what pools of connections usually do. The pool of
// resources (pool) is compared with jackc/puddle. Clients and servers share the machine. If
// other programs do, too, those cases that are about single milliseconds (upload, download) need
// real-time priority, of which they use little:
//
//	chrt -r 1 pools --run 'upload|download'
//
// Exit status: 0 when all cases were run, whatever they showed; 1 when one could not be; 2
// for bad usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"

	"github.com/quorate/quorate/lab/bench/internal/command"
)

func main() { command.Main("pools", run) }

// options are those of the command line.
type options struct {
	command.Flags
	selects func(name string) bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return command.UsageError{Err: err}
	}
	text := fmt.Sprintf("Medians of %d. %s on %s/%s with %d CPUs.\n", opts.Repeat, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, c := range cases() {
		if !opts.selects(c.name) {
			continue
		}
		rows, err := c.measure(ctx, opts, command.Progress(stderr))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		text += "\n" + table(c, rows)
	}
	_, err = io.WriteString(stdout, text)
	return err
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("pools", flag.ContinueOnError)
	flags.SetOutput(stderr)
	opts.Register(flags, names())
	var err error
	opts.selects, err = opts.Parse(flags, args, names())
	return opts, err
}

func names() []string {
	all := cases()
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.name
	}
	return out
}
