package outage

import "strconv"

// phase is where an endpoint, or the cluster, stands.
type phase uint8

const (
	// well: it serves.
	well phase = iota
	// failing: it does not serve, and has not done so for long enough to be told.
	failing
	// wavering: it was failing, and serves again.
	wavering
	// out: it does not serve, and that was told.
	out
	// recovering: it was out, and serves again, not for long enough to be told.
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

// down reports whether it does not serve at the moment.
func (p phase) down() bool { return p == failing || p == out }

// told reports whether it has been told that it is out, and not that this is over.
func (p phase) told() bool { return p == out || p == recovering }

// trigger is what changes the phase.
type trigger uint8

const (
	// fail: it does not serve.
	fail trigger = iota
	// serve: it serves.
	serve
	// lapse: the time that the phase is given has passed.
	lapse

	numTriggers = int(lapse) + 1
)

// transitions says what each trigger does in each phase.
var transitions = [numPhases][numTriggers]phase{
	well:       {fail: failing, serve: well, lapse: well},
	failing:    {fail: failing, serve: wavering, lapse: out},
	wavering:   {fail: failing, serve: wavering, lapse: well},
	out:        {fail: out, serve: recovering, lapse: out},
	recovering: {fail: out, serve: recovering, lapse: well},
}
