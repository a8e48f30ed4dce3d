package outage

import (
	"strings"
	"time"
	"unicode"

	"github.com/quorate/quorate/health"
)

const (
	// minDuration is the minimum duration of an outage that is logged, and the minimum duration of
	// service that ends it. An election takes about as long with etcd's defaults; a restart of a
	// member takes longer.
	minDuration = time.Second

	// flapWindow is the time after an outage within which the next one counts as flapping, and the
	// maximum duration of service that ends an outage.
	flapWindow = time.Minute

	// The latest error of an endpoint that is out is compared with the logged one firstCompare after the line, and then at
	// intervals that double up to maxCompare.
	firstCompare = 10 * time.Second
	maxCompare   = 10 * time.Minute
)

// tally counts what was attempted during an outage.
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

// phase is where an endpoint, or the cluster, is in an outage.
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
)

// down reports whether it does not serve.
func (p phase) down() bool { return p == failing || p == out }

// logged reports whether its outage was logged and has not ended.
func (p phase) logged() bool { return p == out || p == recovering }

// episode tracks the outages of one endpoint, or of the cluster.
type episode struct {
	phase phase
	begin time.Time // of the outage
	back  time.Time // when it recovered, while wavering and recovering
	flaps int       // how often it recovered only briefly
	tried tally     // since shortly before the outage began
	noted time.Time // when tried last changed, zero if that was before the end of the last outage

	// hold is how long it must serve before the outage ends; ended is the end of the last one.
	hold  time.Duration
	ended time.Time

	// The evidence for an outage of an endpoint.
	state    health.State
	evidence health.Evidence
	// covered is set if the line about the cluster names the endpoint.
	covered bool

	// The text of the error that was logged last, when it is next compared with the latest error, and the pause before
	// that comparison.
	reason    string
	compareAt time.Time
	pause     time.Duration
}

// fails records that it does not serve.
func (e *episode) fails(now time.Time) {
	switch e.phase {
	case well:
		before := e.recent(now)
		*e = episode{phase: failing, begin: now, tried: before, noted: now, hold: e.hold, ended: e.ended}
	case wavering:
		e.phase = failing
		e.flaps++
	case recovering:
		e.phase = out
		e.flaps++
	default:
	}
}

// nextHold returns the hold of this outage, while hold is still that of the previous one.
func (e *episode) nextHold() time.Duration {
	if e.ended.IsZero() || e.begin.Sub(e.ended) >= flapWindow {
		return minDuration
	}
	return min(2*e.hold, flapWindow)
}

// serves records that it serves.
func (e *episode) serves(now time.Time) {
	switch e.phase {
	case failing:
		e.phase, e.back = wavering, now
	case out:
		e.phase, e.back = recovering, now
	default:
	}
}

// lapses records that the time limit of the phase has passed.
func (e *episode) lapses() {
	switch e.phase {
	case failing:
		e.phase, e.hold = out, e.nextHold()
		e.reason, e.compareAt, e.pause = reasonOf(e.tried.lastErr), e.begin.Add(minDuration+firstCompare), firstCompare
	case wavering:
		e.phase, e.noted = well, time.Time{}
	case recovering:
		e.phase, e.ended, e.noted = well, e.back, time.Time{}
	default:
	}
}

// due returns when the phase lapses, and false if it does not.
func (e *episode) due() (time.Time, bool) {
	switch e.phase {
	case failing:
		return e.begin.Add(minDuration), true
	case wavering:
		return e.back.Add(minDuration), true
	case recovering:
		return e.back.Add(e.hold), true
	default:
		return time.Time{}, false
	}
}

// hasNewReason reports whether the endpoint is out for another reason than the logged one. It is called at compareAt.
func (e *episode) hasNewReason(now time.Time, s health.Status) bool {
	e.pause = min(2*e.pause, maxCompare)
	e.compareAt = now.Add(e.pause)
	if s.LastErr == nil || s.LastErrAt.Before(e.begin) || reasonOf(s.LastErr) == e.reason {
		return false
	}
	e.reason, e.evidence.Err, e.tried.lastErr = reasonOf(s.LastErr), s.LastErr, s.LastErr
	return true
}

// reasonOf returns the text of an error without numbers: ports and times differ while the reason is the same.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}

func (e *episode) note(now time.Time, t tally) {
	if e.phase == well {
		e.tried = e.recent(now)
	}
	e.tried.add(t)
	e.noted = now
}

// recent returns the attempts just before an outage: calls fail before the cause is known.
func (e *episode) recent(now time.Time) tally {
	if now.Sub(e.noted) > minDuration {
		return tally{}
	}
	return e.tried
}
