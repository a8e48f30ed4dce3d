// Command bench measures Quorate side by side with the official etcd client,
// against the same real servers in the same run, and prints medians and ratios.
//
//	go run ./lab/bench                    everything, a quarter of an hour
//	go run ./lab/bench --run 'create|idle'
//	go run ./lab/bench --short            small sizes, a minute, to see that it works
//	go run ./lab/bench --json > bench.json
//
// Exit status: 0 when all cases were run, whatever they showed; 1 when one could
// not be, or a client lost, repeated or reordered something; 2 for bad usage.
package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/cases"
	"github.com/quorate/quorate/lab/bench/internal/command"
	"github.com/quorate/quorate/lab/bench/internal/programs"
	"github.com/quorate/quorate/lab/bench/report"
	"github.com/quorate/quorate/lab/bench/runner"
)

func main() {
	lab.Main() // in a member of a cluster this does not return
	command.Main("bench", run)
}

// options are those of the command line.
type options struct {
	runner.Config
	json bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return command.UsageError{Err: err}
	}
	var remove func()
	if opts.Programs, remove, err = programs.Build(ctx); err != nil {
		return err
	}
	defer remove()
	opts.Progress = command.Progress(stderr)
	rep, err := runner.Run(ctx, opts.Config)
	write := report.Table
	if opts.json {
		write = report.JSON
	}
	return errors.Join(err, write(stdout, rep))
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	var chosen command.Flags
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.Register(flags, names())
	flags.BoolVar(&opts.json, "json", false, "print JSON, with every sample")
	selects, err := chosen.Parse(flags, args, names())
	if err != nil {
		return opts, err
	}
	opts.Repeat, opts.Short = chosen.Repeat, chosen.Short
	for _, c := range cases.All() {
		if selects(c.Name) {
			opts.Cases = append(opts.Cases, c)
		}
	}
	return opts, nil
}

func names() []string {
	all := cases.All()
	out := make([]string, 0, len(all))
	for _, c := range all {
		out = append(out, c.Name)
	}
	return out
}
