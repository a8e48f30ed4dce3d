// Command fleet measures what many clients cost a cluster of three members: fleets of
// Quorate and of the official etcd client, one after the other, each on a new cluster.
//
//	go run ./lab/bench/fleet                               all phases, nine minutes
//	go run ./lab/bench/fleet --phase 'idle|no-quorum'      two phases
//	go run ./lab/bench/fleet --client Quorate              one kind of client
//	go run ./lab/bench/fleet --one-process --phase idle    also the memory of the clients
//	go run ./lab/bench/fleet --json > fleet.json
//
// Each client is a process. It has one watch, keeps one lease alive and, except in the
// idle phase, makes one linearizable get a second. The counts come from the members'
// own /metrics. Connections are counted where the lab's links accept them.
//
// Exit status: 0 when all phases were measured, whatever they showed; 1 when one could
// not be; 2 for bad usage.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/bench/internal/command"
	"github.com/quorate/quorate/lab/bench/internal/programs"
)

func main() {
	lab.Main() // does not return in a member of a cluster
	command.Main("fleet", run)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return command.UsageError{Err: err}
	}
	var remove func()
	if opts.programs, remove, err = programs.Build(ctx); err != nil {
		return err
	}
	defer remove()
	result, err := measure(ctx, opts, command.Progress(stderr))
	write := writeTable
	if opts.json {
		write = writeJSON
	}
	return errors.Join(err, write(stdout, result))
}
