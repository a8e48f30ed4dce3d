package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/lab/bench/fleet/clients"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/servers"
)

const (
	// startsAtOnce bounds how many processes start at a time.
	startsAtOnce = 4
	// asksAtOnce bounds how many processes are asked at a time.
	asksAtOnce = 32
)

// fleet is all clients of one kind.
type fleet struct {
	processes []*process
	deadline  time.Duration // of the gets, 0 for none
}

// startFleet starts the clients and returns when they are ready. The fleet must be
// closed.
func startFleet(ctx context.Context, opts options, kind servers.Client, job clients.Job) (*fleet, error) {
	f := &fleet{processes: make([]*process, opts.processes)}
	var work errgroup.Group
	work.SetLimit(startsAtOnce)
	for i := range opts.processes {
		part := job
		part.Clients = (opts.clients + i) / opts.processes
		work.Go(func() (err error) {
			f.processes[i], err = startProcess(ctx, opts.program.Paths[kind], part)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// close ends all processes.
func (f *fleet) close() {
	var work sync.WaitGroup
	for _, p := range f.processes {
		if p != nil { // it has started
			work.Go(p.close)
		}
	}
	work.Wait()
}

// setLoad makes the clients do gets with a deadline, or none with 0.
func (f *fleet) setLoad(ctx context.Context, deadline time.Duration) {
	f.deadline = deadline
	f.command(ctx, clients.Command{})
}

// state returns what the clients have done.
func (f *fleet) state(ctx context.Context) clients.State { return f.command(ctx, clients.Command{}) }

// mark is state, and resets which clients have had an answer.
func (f *fleet) mark(ctx context.Context) clients.State {
	return f.command(ctx, clients.Command{Mark: true})
}

func (f *fleet) command(ctx context.Context, cmd clients.Command) (sum clients.State) {
	cmd.Deadline = f.deadline
	states := make([]clients.State, len(f.processes))
	var work errgroup.Group
	work.SetLimit(asksAtOnce)
	for i, p := range f.processes {
		work.Go(func() (err error) {
			states[i], err = p.call(ctx, cmd, answerTimeout)
			return err
		})
	}
	fatal.If(work.Wait())
	for _, s := range states {
		sum.Add(s)
	}
	return sum
}
