// Command fleet measures what many clients cost a cluster of three members: fleets of
// Quorate and of the official etcd client, one after the other, each on a new cluster.
//
//	go run ./lab/bench/fleet                               all phases, six minutes
//	go run ./lab/bench/fleet --phase 'idle|no-quorum'      two phases
//	go run ./lab/bench/fleet --phase storm --clients 1000 --processes 10
//	go run ./lab/bench/fleet --phase badcert --clients 19
//
// Each client is a process, unless --processes says otherwise. It has one watch, keeps one lease alive and, except in the
// idle phase, makes one linearizable get a second. The counts come from the members'
// own /metrics. Connections are counted where the lab's links accept them; in the phase
// storm, where clients are refused by the kernel, connects that failed are counted by the
// kernel, all those of the network namespace: give it one of its own ("unshare -n").
//
// Exit status: 0 when all phases were measured, whatever they showed; 1 when one could
// not be; 2 for bad usage.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/internal/stats"
	"github.com/quorate/quorate/lab/servers"
)

func main() {
	lab.Main() // does not return in a member of a cluster
	log.SetFlags(0)
	log.SetPrefix("fleet: ")
	opts, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		log.Print(err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, opts)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, opts options) (err error) {
	if opts.program, err = servers.BuildProgram(ctx, "./bench/program", servers.Clients); err != nil {
		return err
	}
	results, err := measure(ctx, opts, func(what string) { log.Print(what) })
	return errors.Join(err, writeTable(os.Stdout, opts, results))
}

// measure runs the phases with each kind of client.
func measure(ctx context.Context, opts options, progress func(string)) ([]result, error) {
	results := make([]result, len(opts.phases))
	for i, p := range opts.phases {
		results[i] = result{p, map[servers.Client][]row{}}
	}
	for _, kind := range servers.Clients {
		if err := measureKind(ctx, opts, kind, results, progress); err != nil {
			return results, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return results, nil
}

func measureKind(ctx context.Context, opts options, kind servers.Client, results []result, progress func(string)) (err error) {
	progress(fmt.Sprintf("%s: start %d clients", kind, opts.clients))
	r, err := newRig(ctx, opts, kind, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for i, p := range opts.phases {
		if err := fatal.Catch(func() { results[i].rows[kind] = r.measure(ctx, p) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// options are those of the command line.
type options struct {
	clients   int
	processes int
	program   servers.Program // by kind
	phases    []phase
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var pattern regexp.Regexp
	var length time.Duration
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.clients, "clients", 100, "clients of each kind")
	flags.IntVar(&o.processes, "processes", 0, "processes that they are spread over (default one for each client)")
	flags.TextVar(&pattern, "phase", regexp.MustCompile(""),
		"run only the phases whose name matches the `regexp`: idle, light, frozen, overload, no-quorum, storm, badcert, swallow (default all but the last three)")
	flags.DurationVar(&length, "length", 0, "length of each phase (default 30s, of phases that run alone their own)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.processes = cmp.Or(o.processes, o.clients)
	alone := func(p phase) bool { return p.alone != nil }
	for _, p := range allPhases {
		if pattern.MatchString(p.name) && (pattern.String() != "" || !alone(p)) {
			p.length = cmp.Or(length, p.length)
			o.phases = append(o.phases, p)
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.processes < 1 || o.processes > o.clients || length < 0:
		return o, errors.New("--clients and --length must be positive, and --processes 1 to the number of clients")
	case len(o.phases) == 0:
		return o, fmt.Errorf("no phase matches --phase %q", pattern.String())
	case len(o.phases) > 1 && slices.ContainsFunc(o.phases, alone):
		return o, errors.New("storm, badcert and swallow run alone: give --phase a name")
	}
	return o, nil
}

// The units of rows; counts have none.
const (
	percent = " %"
	seconds = " s"
)

// row is one number that was measured with one kind of client.
type row struct {
	metric, unit string
	value        float64
}

// result is what was measured of one phase: the same rows with every kind of client, none with a kind that did not get that far.
type result struct {
	phase
	rows map[servers.Client][]row
}

// writeTable writes results for people.
func writeTable(out io.Writer, opts options, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		_, _ = fmt.Fprintf(w, "%s, %v: %s\n\tOFFICIAL\tQUORATE\n", strings.ToUpper(r.name), r.length, r.about)
		for i, row := range r.rows[servers.Clients[0]] {
			_, _ = fmt.Fprint(w, row.metric)
			for _, kind := range servers.Clients {
				if rows := r.rows[kind]; i < len(rows) {
					_, _ = fmt.Fprint(w, "\t", stats.Text(rows[i].value), row.unit)
				}
			}
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintln(w)
	}
	_, _ = fmt.Fprintf(w, "%d clients of each kind, in %d processes, and the members share %d CPUs.\n", opts.clients, opts.processes, runtime.NumCPU())
	return w.Flush()
}
