package outage

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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

// outage is the current outage of an endpoint, or of the cluster, if there is one.
type outage struct {
	down    bool
	changed time.Time // when down last changed
	begin   time.Time // zero if there is no outage
	logged  bool
	covered bool // the line about the cluster stands for that of the endpoint
	flaps   int  // how often it recovered only briefly

	// hold is how long it must serve before the outage ends; ended is the end of the last one.
	hold  time.Duration
	ended time.Time

	tried tally     // since shortly before the outage began
	noted time.Time // when tried last changed, zero if that was before the end of the last outage

	// The evidence for an outage of an endpoint.
	state    health.State
	evidence health.Evidence

	// The text of the error that was logged last, when it is next compared with the latest error, zero for never, and the
	// pause before that comparison.
	reason    string
	compareAt time.Time
	pause     time.Duration
}

// set records whether it is down.
func (o *outage) set(down bool, now time.Time) {
	if down == o.down {
		return
	}
	o.down, o.changed = down, now
	switch {
	case down && o.begin.IsZero():
		o.forgetOld(now)
		o.begin, o.flaps = now, 0
	case down:
		o.flaps++
	}
}

// start records that it is logged. If compares is set, its error is compared later.
func (o *outage) start(compares bool) {
	o.logged = true
	if compares {
		o.reason, o.pause = reasonOf(o.tried.lastErr), firstCompare
		o.compareAt = o.begin.Add(minDuration + firstCompare)
	}
	if o.ended.IsZero() || o.begin.Sub(o.ended) >= flapWindow {
		o.hold = minDuration
	} else {
		o.hold = min(2*o.hold, flapWindow)
	}
}

// end ends the outage.
func (o *outage) end() {
	if o.logged {
		o.ended = o.changed
	}
	o.begin, o.noted, o.compareAt = time.Time{}, time.Time{}, time.Time{}
	o.logged, o.covered = false, false
}

// due returns when it is to be logged or compared, or ends, if nothing changes; zero: never.
func (o *outage) due() time.Time {
	switch {
	case o.begin.IsZero():
		return time.Time{}
	case o.down && o.logged:
		return o.compareAt
	case o.down:
		return o.begin.Add(minDuration)
	case o.logged:
		return o.changed.Add(o.hold)
	default:
		return o.changed.Add(minDuration)
	}
}

func (o *outage) isDue(now time.Time) bool {
	due := o.due()
	return !due.IsZero() && !due.After(now)
}

// hasNewReason reports whether the endpoint is out for another reason than the logged one. It is called at compareAt.
func (o *outage) hasNewReason(now time.Time, s health.Status) bool {
	o.pause = min(2*o.pause, maxCompare)
	o.compareAt = now.Add(o.pause)
	if s.LastErr == nil || s.LastErrAt.Before(o.begin) || reasonOf(s.LastErr) == o.reason {
		return false
	}
	o.reason, o.evidence.Err, o.tried.lastErr = reasonOf(s.LastErr), s.LastErr, s.LastErr
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

// tally counts what was attempted during an outage.
type tally struct {
	retries, failovers, hedges, unknown int
	lastErr                             error
}

// note adds attempts.
func (o *outage) note(now time.Time, t tally) {
	if o.begin.IsZero() {
		o.forgetOld(now)
	}
	o.noted = now
	o.tried.retries += t.retries
	o.tried.failovers += t.failovers
	o.tried.hedges += t.hedges
	o.tried.unknown += t.unknown
	if t.lastErr != nil {
		o.tried.lastErr = t.lastErr
	}
}

// forgetOld resets the counts if the last attempt is too old to belong to an outage that begins now: calls fail before the cause
// is known.
func (o *outage) forgetOld(now time.Time) {
	if now.Sub(o.noted) > minDuration {
		o.tried = tally{}
	}
}

// line is a line of the log.
type line struct {
	level   zapcore.Level
	message string
	fields  []zap.Field
}

func (r *Reporter) logLocked(level zapcore.Level, message string, fields ...[]zap.Field) {
	r.lines = append(r.lines, line{level, message, slices.Concat(fields...)})
}

// member is an endpoint in a line about the cluster.
type member struct {
	endpoint string
	state    health.State
	evidence health.Evidence
}

func (m member) String() string {
	return m.endpoint + ": " + m.state.String() + " (" + m.evidence.String() + ")"
}

// cause returns the evidence for the outage of an endpoint.
func (o *outage) cause(endpoint string) []zap.Field {
	fields := []zap.Field{
		zap.String("endpoint", endpoint), zap.Stringer("state", o.state), zap.Stringer("evidence", o.evidence.Kind),
	}
	if o.evidence.Detail != "" {
		fields = append(fields, zap.String("detail", o.evidence.Detail))
	}
	return append(fields, zap.Time("since", o.begin))
}

// maxMembers bounds the endpoints that a line names.
const maxMembers = 20

// list returns the endpoints that are out in an outage of the cluster, and how many these are.
func (o *outage) list(key string, out []member) []zap.Field {
	return []zap.Field{zap.Stringers(key, out[:min(len(out), maxMembers)]), zap.Int("out", len(out)), zap.Time("since", o.begin)}
}

// summary summarizes an outage that has ended.
func (o *outage) summary() []zap.Field {
	return append([]zap.Field{zap.Duration("out-for", o.changed.Sub(o.begin)), zap.Int("flaps", o.flaps)}, o.tried.fields()...)
}

func (t *tally) fields() []zap.Field {
	fields := []zap.Field{
		zap.Int("retries", t.retries), zap.Int("failovers", t.failovers),
		zap.Int("hedges", t.hedges), zap.Int("unknown-outcomes", t.unknown),
	}
	if t.lastErr != nil {
		fields = append(fields, zap.NamedError("last-error", t.lastErr))
	}
	return fields
}
