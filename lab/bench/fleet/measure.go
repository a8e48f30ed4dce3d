package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/servers"
)

// measure runs the phases with each kind of client.
func measure(ctx context.Context, opts options, progress func(string)) (res result, err error) {
	res = result{clients: opts.clients, processes: opts.processes, phases: make([]phaseResult, len(opts.phases))}
	defer res.complete()
	for _, kind := range servers.Clients {
		if err := measureKind(ctx, opts, kind, &res, progress); err != nil {
			return res, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return res, nil
}

func measureKind(ctx context.Context, opts options, kind servers.Client, res *result, progress func(string)) (err error) {
	progress(fmt.Sprintf("%s: start %d clients", kind, opts.clients))
	r, err := newRig(ctx, opts, kind, func(note string) { res.notes = append(res.notes, note) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for i, p := range opts.phases {
		res.phases[i].phase = p
		if err := fatal.Catch(func() { r.settle(ctx, p) }); err != nil {
			return fmt.Errorf("before %s: %w", p.name, err)
		}
		progress(fmt.Sprintf("%s: %s, %v", kind, p.name, p.length))
		if err := fatal.Catch(func() { res.phases[i].add(kind, r.measurePhase(ctx, p)) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// measurePhase runs a phase and returns what was counted meanwhile. An error ends it, as it ends all that it calls: see
// package fatal.
func (r *rig) measurePhase(ctx context.Context, p phase) []row {
	if p.measure != nil {
		return p.measure(ctx, r, p)
	}
	return r.sample(ctx, p).rows()
}

// sample reads the members first and last, so that they count every get that a client
// counts.
func (r *rig) sample(ctx context.Context, p phase) sample {
	opened, metered := reached(r.links()), time.Now()
	counted := fatal.OK(readLive(ctx, r.cluster.Members()))
	before := r.fleet.state(ctx)
	p.begin(r)
	fatal.If(pause.For(ctx, p.length))
	after := r.fleet.state(ctx)
	s := sample{clients: float64(r.opts.clients), gets: p.deadline > 0, seconds: time.Since(metered).Seconds()}
	s.take(before, after)
	s.members = fatal.OK(countedSince(ctx, r.cluster.Members(), counted))
	s.opened = reached(r.links()) - opened
	// A get of each client may have been received before the measurement began.
	if ranges := s.members.rpcs["KV/Range"]; p.checked && ranges+s.clients < s.answered {
		fatal.If(fmt.Errorf("the members count %.0f gets, and the clients %.0f answers", ranges, s.answered))
	}
	return s
}
