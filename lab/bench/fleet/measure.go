package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measure runs the phases with each kind of client.
func measure(ctx context.Context, opts options, progress func(string)) (res result, err error) {
	res = newResult(opts)
	defer res.complete()
	for _, kind := range opts.kinds {
		if err := measureKind(ctx, opts, kind, &res, progress); err != nil {
			return res, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return res, nil
}

func measureKind(ctx context.Context, opts options, kind string, res *result, progress func(string)) (err error) {
	progress(fmt.Sprintf("%s: start %d clients", kind, opts.clients))
	r, err := newRig(ctx, opts, kind, func(note string) { res.Notes = append(res.Notes, note) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for i, p := range opts.phases {
		// quorum-back begins with what no-quorum has done.
		if i == 0 || p.prepare == nil || opts.phases[i-1].name != "no-quorum" {
			if err := r.settle(ctx, p); err != nil {
				return fmt.Errorf("before %s: %w", p.name, err)
			}
		}
		progress(fmt.Sprintf("%s: %s, %v", kind, p.name, p.length))
		s, err := r.measurePhase(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		res.add(p, kind, s.rows())
	}
	return nil
}

// measurePhase runs a phase and returns what was counted meanwhile.
func (r *rig) measurePhase(ctx context.Context, p phase) (sample, error) {
	s := sample{clients: float64(r.opts.clients), gets: p.deadline != nil, memory: r.opts.oneProcess, restores: p.restores}
	if p.prepare != nil {
		if err := p.prepare(ctx, r); err != nil {
			return s, err
		}
	}
	if err := r.fleet.mark(ctx); err != nil {
		return s, err
	}
	if err := r.measureWindow(ctx, p, &s); err != nil {
		return s, err
	}
	// A get of each client may have been received before the measurement began.
	if ranges := s.members.rpcs["KV/Range"]; p.checked && ranges+s.clients < s.answered {
		return s, fmt.Errorf("the members count %.0f gets, and the clients %.0f answers", ranges, s.answered)
	}
	if p.recover == nil {
		return s, nil
	}
	counter := countConnections(r.links())
	err := p.recover(r)
	if err == nil {
		err = wait(ctx, r.opts.recovery)
	}
	returned := counter.stop()
	s.returned = &returned
	return s, err
}

// measureWindow runs a phase between two readings of all counters.
func (r *rig) measureWindow(ctx context.Context, p phase, s *sample) error {
	counter := countConnections(r.links())
	err := r.readAround(ctx, p, s)
	s.connections = counter.stop()
	return err
}

// readAround reads the members first and last, so that they count every get that a
// client counts.
func (r *rig) readAround(ctx context.Context, p phase, s *sample) error {
	metered := time.Now()
	var err error
	if r.meter, err = startMeter(ctx, r.cluster.Members()); err != nil {
		return err
	}
	before, err := r.fleet.state(ctx, false)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := p.run(ctx, r, p.length); err != nil {
		return err
	}
	after, err := r.fleet.state(ctx, r.opts.oneProcess)
	if err != nil {
		return err
	}
	s.seconds = time.Since(metered).Seconds()
	if s.members, err = r.meter.stop(ctx, r.cluster.Members()); err != nil {
		return err
	}
	s.take(before, after, begun)
	s.serves = r.served.Sub(begun).Seconds()
	return nil
}
