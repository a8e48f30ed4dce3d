package outage

import (
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/quorate/quorate/health"
)

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
