package outage

import "strconv"

// phase is the phase of an endpoint, or of the cluster.
type phase uint8

const (
	// well: it serves.
	well phase = iota
	// failing: it does not serve, for too short a time to be logged.
	failing
	// wavering: it was failing, and serves again.
	wavering
	// out: it does not serve, which was logged.
	out
	// recovering: it was out, and serves again, for too short a time to end the outage.
	recovering

	numPhases = int(recovering) + 1
)

var phaseNames = [numPhases]string{
	well: "well", failing: "failing", wavering: "wavering", out: "out", recovering: "recovering",
}

func (p phase) String() string {
	if int(p) < numPhases {
		return phaseNames[p]
	}
	return "phase(" + strconv.Itoa(int(p)) + ")"
}

// down reports whether it does not serve.
func (p phase) down() bool { return p == failing || p == out }

// logged reports whether its outage was logged and has not ended.
func (p phase) logged() bool { return p == out || p == recovering }

// trigger is an event that changes the phase.
type trigger uint8

const (
	// fail: it does not serve.
	fail trigger = iota
	// serve: it serves.
	serve
	// lapse: the time of the phase has passed.
	lapse

	numTriggers = int(lapse) + 1
)

// transitions has the next phase for each phase and trigger.
var transitions = [numPhases][numTriggers]phase{
	well:       {fail: failing, serve: well, lapse: well},
	failing:    {fail: failing, serve: wavering, lapse: out},
	wavering:   {fail: failing, serve: wavering, lapse: well},
	out:        {fail: out, serve: recovering, lapse: out},
	recovering: {fail: out, serve: recovering, lapse: well},
}
