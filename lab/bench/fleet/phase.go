package main

import (
	"context"
	"time"

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/lab/link"
)

// phase is a time in which the cluster is in one condition and the clients are
// measured.
type phase struct {
	name, about string
	length      time.Duration
	deadline    time.Duration // of the gets, 0 for none
	// begin brings the cluster into the condition, nil if there is nothing to do.
	begin func(*rig)
	// alone takes the place of the usual measurement in a phase that runs only when it is named, on a cluster of its own.
	alone func(context.Context, *rig, time.Duration) []row
	// direct leads clients to the members past the links, and tls makes members serve with TLS.
	direct, tls bool
}

const (
	// usualLength is that of a phase.
	usualLength = 30 * time.Second
	// usualDeadline is that of a get.
	usualDeadline = 2 * time.Second
	// overloadDeadline is that of a get while the members are slow, and
	// overloadDelay what is then added to each answer.
	overloadDeadline = 200 * time.Millisecond
	overloadDelay    = time.Second
	// outage is the length of a phase that runs alone.
	outage = 12 * time.Second
)

// allPhases are the phases in the order in which they run.
var allPhases = []phase{
	{name: "idle", about: "no gets", length: usualLength},
	{name: "light", about: "a get per client and second", length: usualLength, deadline: usualDeadline},
	{name: "frozen", about: "one follower is frozen (SIGSTOP)", length: usualLength, deadline: usualDeadline, begin: freeze},
	{name: "overload", about: "each member answers later than the deadline", length: usualLength, deadline: overloadDeadline, begin: slow},
	{name: "no-quorum", about: "the leader and a follower are killed", length: usualLength, deadline: usualDeadline, begin: killMajority},
	{
		name: "storm", about: "all members are killed, and restarted at the end", length: outage, deadline: usualDeadline,
		alone: storm, direct: true,
	},
	{
		name: "badcert", about: "all connections end, and members show certificates that nobody trusts", length: outage, deadline: usualDeadline,
		alone: badCertificates, tls: true,
	},
	{
		name: "swallow", about: "the network loses all that clients and members send each other", length: 10 * time.Second, deadline: usualDeadline,
		alone: swallowed, direct: true,
	},
}

func freeze(r *rig) { fatal.If(r.followers[0].Stop()) }

// slow delays all bytes between clients and members.
func slow(r *rig) {
	for _, l := range r.links() {
		l.Delay(link.Both, overloadDelay/2)
	}
}

func killMajority(r *rig) {
	fatal.If(r.followers[0].Kill())
	fatal.If(r.leader.Kill())
}
