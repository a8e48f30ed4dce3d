package main

import (
	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/link"
)

func quiet(*rig) {}

// freeze freezes a follower.
func freeze(r *rig) { fatal.If(r.followers[0].Stop()) }

// slow delays all bytes between clients and members.
func slow(r *rig) {
	for _, l := range r.links() {
		l.Delay(link.Both, overloadDelay/2)
	}
}

// killMajority kills the leader and a follower.
func killMajority(r *rig) {
	fatal.If(r.followers[0].Kill())
	fatal.If(r.leader.Kill())
}
