package main

import (
	"context"
	"time"
)

// phase is a time in which one thing is done to the cluster and the clients are
// measured.
type phase struct {
	name, about string
	length      time.Duration
	deadline    time.Duration // of the gets, 0 for none
	// begin does its thing to the cluster.
	begin func(*rig)
	// checked says that the counts of the members must agree with those of the
	// clients.
	checked bool
	// alone says that the phase runs only when it is named, on a cluster of its own, and
	// measure takes the place of the usual measurement.
	alone   bool
	measure func(context.Context, *rig, phase) []row
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

// allPhases returns the phases in the order in which they run.
func allPhases() []phase {
	return []phase{
		{name: "idle", about: "no gets", begin: quiet},
		{name: "light", about: "a get per client and second", deadline: usualDeadline, begin: quiet, checked: true},
		{name: "frozen", about: "one follower is frozen (SIGSTOP)", deadline: usualDeadline, begin: freeze},
		{name: "overload", about: "each member answers later than the deadline", deadline: overloadDeadline, begin: slow},
		{name: "no-quorum", about: "the leader and a follower are killed", deadline: usualDeadline, begin: killMajority},
		{
			name: "storm", about: "all members are killed, and restarted at the end", length: outage, deadline: usualDeadline,
			alone: true, measure: storm, direct: true,
		},
		{
			name: "badcert", about: "all connections end, and members show certificates that nobody trusts", length: outage, deadline: usualDeadline,
			alone: true, measure: badCertificates, tls: true,
		},
		{
			name: "swallow", about: "the network loses all that clients and members send each other", length: 10 * time.Second, deadline: usualDeadline,
			alone: true, measure: swallowed, direct: true,
		},
	}
}

func phaseNames() []string {
	all := allPhases()
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.name
	}
	return names
}
