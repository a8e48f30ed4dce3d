package main

import (
	"context"
	"time"

	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/link"
)

// wait waits for d, and returns an error when ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	_ = pause.For(ctx, d)
	return context.Cause(ctx)
}

func quiet(ctx context.Context, _ *rig, length time.Duration) error { return wait(ctx, length) }

// freeze freezes a follower.
func freeze(ctx context.Context, r *rig, length time.Duration) error {
	if err := r.followers[0].Stop(); err != nil {
		return err
	}
	return wait(ctx, length)
}

func thaw(r *rig) error { return r.followers[0].Continue() }

// slow delays all bytes between clients and members.
func slow(ctx context.Context, r *rig, length time.Duration) error {
	for _, l := range r.links() {
		l.Delay(link.Both, r.opts.overloadDelay/2)
	}
	return wait(ctx, length)
}

func speedUp(r *rig) error {
	r.cluster.Heal()
	return nil
}

// restartAll restarts one member after the other, as an upgrade does.
func restartAll(ctx context.Context, r *rig, length time.Duration) error {
	members := r.cluster.Members()
	for _, m := range members {
		begun := time.Now()
		if err := r.meter.retire(ctx, m); err != nil {
			return err
		}
		if err := m.Terminate(ctx); err != nil {
			return err
		}
		if err := m.Restart(ctx); err != nil {
			return err
		}
		if err := wait(ctx, length/time.Duration(len(members))-time.Since(begun)); err != nil {
			return err
		}
	}
	return nil
}

// killMajority kills the leader and a follower.
func killMajority(ctx context.Context, r *rig, length time.Duration) error {
	if err := r.followers[0].Kill(); err != nil {
		return err
	}
	if err := r.leader.Kill(); err != nil {
		return err
	}
	return wait(ctx, length)
}

// withoutQuorum kills the leader and a follower unless a phase before has.
func withoutQuorum(ctx context.Context, r *rig) error {
	if !r.leader.Alive() {
		return nil
	}
	return killMajority(ctx, r, r.opts.outage)
}

// restoreQuorum restarts one of the members that killMajority has killed.
func restoreQuorum(ctx context.Context, r *rig, length time.Duration) error {
	begun := time.Now()
	if err := r.followers[0].Restart(ctx); err != nil {
		return err
	}
	r.served = time.Now()
	return wait(ctx, length-time.Since(begun))
}
