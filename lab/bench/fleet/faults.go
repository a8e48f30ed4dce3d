package main

import "github.com/quorate/quorate/lab/link"

func quiet(*rig) error { return nil }

// freeze freezes a follower.
func freeze(r *rig) error { return r.followers[0].Stop() }

// slow delays all bytes between clients and members.
func slow(r *rig) error {
	for _, l := range r.links() {
		l.Delay(link.Both, overloadDelay/2)
	}
	return nil
}

// killMajority kills the leader and a follower.
func killMajority(r *rig) error {
	if err := r.followers[0].Kill(); err != nil {
		return err
	}
	return r.leader.Kill()
}
