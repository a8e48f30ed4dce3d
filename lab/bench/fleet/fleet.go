package main

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/lab/bench/fleet/crowd"
)

const (
	// startsAtOnce bounds how many processes start at a time.
	startsAtOnce = 4
	// asksAtOnce bounds how many processes are asked at a time.
	asksAtOnce = 32
)

// fleet is all clients of one kind, in one process or in many.
type fleet struct {
	processes []*process
	deadline  time.Duration // of the gets, 0 for none
}

// startFleet starts the clients and returns when they are ready. The fleet must be
// closed.
func startFleet(ctx context.Context, opts options, kind string, endpoints []string) (*fleet, error) {
	j := crowd.Job{Endpoints: endpoints, Clients: 1, TTL: opts.ttl, Interval: opts.interval}
	n := opts.clients
	if opts.oneProcess {
		n, j.Clients = 1, opts.clients
	}
	f := &fleet{}
	var mu sync.Mutex
	err := crowd.Each(n, startsAtOnce, func(int) error {
		p, err := startProcess(ctx, opts.programs[kind], j)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		f.processes = append(f.processes, p)
		return nil
	})
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// close ends all processes.
func (f *fleet) close() {
	var work sync.WaitGroup
	for _, p := range f.processes {
		work.Go(p.close)
	}
	work.Wait()
}

// setLoad makes the clients do gets with a deadline, or none with 0.
func (f *fleet) setLoad(ctx context.Context, deadline time.Duration) error {
	f.deadline = deadline
	_, err := f.order(ctx, crowd.Order{})
	return err
}

// mark makes the clients forget when their gets were answered.
func (f *fleet) mark(ctx context.Context) error {
	_, err := f.order(ctx, crowd.Order{Mark: true})
	return err
}

// state returns what the clients have done, with their memory if heap is true.
func (f *fleet) state(ctx context.Context, heap bool) (crowd.State, error) {
	return f.order(ctx, crowd.Order{Heap: heap})
}

func (f *fleet) order(ctx context.Context, o crowd.Order) (crowd.State, error) {
	o.Deadline = f.deadline
	var mu sync.Mutex
	var sum crowd.State
	err := crowd.Each(len(f.processes), asksAtOnce, func(i int) error {
		s, err := f.processes[i].ask(ctx, o, answerTimeout)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		sum.Add(s)
		return nil
	})
	return sum, err
}
