package outage

import (
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// moment is how long something lasts that is worth a line, and how long it takes to
	// believe that it is over. An election takes about as long with etcd's defaults, and
	// a member that restarts takes longer.
	moment = time.Second

	// quiet is how soon after an outage the next one is taken for the same trouble, and
	// the longest service that is asked for before one counts as over.
	quiet = time.Minute
)

// tally is what was done while something was out.
type tally struct {
	retries, failovers, hedges, unknown int
	lastErr                             error
}

func (t *tally) add(u tally) {
	t.retries += u.retries
	t.failovers += u.failovers
	t.hedges += u.hedges
	t.unknown += u.unknown
	if u.lastErr != nil {
		t.lastErr = u.lastErr
	}
}

// episode follows one endpoint, or the cluster, through its outages.
type episode struct {
	phase phase
	begin time.Time // of the outage
	back  time.Time // when it came back, while wavering and recovering
	flaps int       // how often it came back, and did not stay
	tried tally     // since a moment before the outage began
	noted time.Time // when it was last added to, zero if that was before the last outage ended

	// hold is how long it has to serve before the outage counts as over, ended when the
	// last one was.
	hold  time.Duration
	ended time.Time

	// What led to the outage, of an endpoint.
	state    health.State
	evidence health.Evidence
	// covered says that the line about the cluster told of it.
	covered bool
}

// fails notes that it does not serve.
func (e *episode) fails(now time.Time) {
	switch e.phase {
	case well:
		before := e.recent(now)
		*e = episode{begin: now, tried: before, noted: now, hold: e.hold, ended: e.ended}
	case wavering, recovering:
		e.flaps++
	default:
	}
	e.phase = transitions[e.phase][fail]
}

// nextHold returns how long it takes to believe in the end of this outage, when hold is
// still that of the one before.
func (e *episode) nextHold() time.Duration {
	if e.ended.IsZero() || e.begin.Sub(e.ended) >= quiet {
		return moment
	}
	return min(2*e.hold, quiet)
}

// serves notes that it serves.
func (e *episode) serves(now time.Time) {
	if e.phase.down() {
		e.back = now
	}
	e.phase = transitions[e.phase][serve]
}

// lapses notes that the time of the phase has passed.
func (e *episode) lapses() {
	switch e.phase {
	case failing:
		e.hold = e.nextHold()
	case wavering:
		e.noted = time.Time{}
	case recovering:
		e.ended, e.noted = e.back, time.Time{}
	default:
	}
	e.phase = transitions[e.phase][lapse]
}

// due returns when the phase lapses, and false if it does not by itself.
func (e *episode) due() (time.Time, bool) {
	switch e.phase {
	case failing:
		return e.begin.Add(moment), true
	case wavering:
		return e.back.Add(moment), true
	case recovering:
		return e.back.Add(e.hold), true
	default:
		return time.Time{}, false
	}
}

// note counts what was tried.
func (e *episode) note(now time.Time, t tally) {
	if e.phase == well {
		e.tried = e.recent(now)
	}
	e.tried.add(t)
	e.noted = now
}

// recent returns what was tried just before now, if nothing is wrong: calls fail before
// it is known why.
func (e *episode) recent(now time.Time) tally {
	if now.Sub(e.noted) > moment {
		return tally{}
	}
	return e.tried
}
