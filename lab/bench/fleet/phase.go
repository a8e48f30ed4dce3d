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
	// deadline returns that of the gets, nil for no gets.
	deadline func(options) time.Duration
	// prepare, if any, runs before the measurement.
	prepare func(context.Context, *rig) error
	// run does its thing to the cluster and returns after length.
	run func(ctx context.Context, r *rig, length time.Duration) error
	// recover, if any, ends the fault. Its effect is measured on its own.
	recover func(*rig) error
	// checked says that the counts of the members must agree with those of the
	// clients.
	checked bool
	// restores says that the time until the clients' gets are answered is measured.
	restores bool
}

// allPhases returns the phases in the order in which they run.
func allPhases() []phase {
	usual := func(o options) time.Duration { return o.deadline }
	return []phase{
		{name: "idle", about: "no gets", run: quiet},
		{name: "light", about: "a get per client and interval", deadline: usual, run: quiet, checked: true},
		{name: "frozen", about: "one follower is frozen (SIGSTOP), then continued", deadline: usual, run: freeze, recover: thaw},
		{
			name: "overload", about: "each member answers later than the deadline, then in time",
			deadline: func(o options) time.Duration { return o.overloadDeadline }, run: slow, recover: speedUp,
		},
		{name: "rolling-restart", about: "the members are restarted one after the other", deadline: usual, run: restartAll},
		{name: "no-quorum", about: "the leader and a follower are killed", deadline: usual, run: killMajority},
		{
			name: "quorum-back", about: "one of the two killed members is restarted",
			deadline: usual, prepare: withoutQuorum, run: restoreQuorum, restores: true,
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
