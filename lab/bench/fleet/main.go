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
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/servers"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	lab.Main() // does not return in a member of a cluster
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	say := func(what ...any) {
		_, _ = fmt.Fprintln(stderr, fmt.Sprint(what...)) // a failed write cannot be reported
	}
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		say("fleet: ", err)
		return exitUsage
	}
	if opts.program, err = servers.BuildProgram(ctx, "./bench/program", servers.Clients); err != nil {
		say("fleet: ", err)
		return exitFailure
	}
	defer opts.program.Remove()
	results, err := measure(ctx, opts, func(what string) { say(what) })
	if err = errors.Join(err, writeTable(stdout, opts, results)); err != nil {
		say("fleet: ", err)
		return exitFailure
	}
	return exitOK
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
