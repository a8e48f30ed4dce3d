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

func warning(message string, fields ...[]zap.Field) line {
	return line{zapcore.WarnLevel, message, slices.Concat(fields...)}
}

func info(message string, fields ...[]zap.Field) line {
	return line{zapcore.InfoLevel, message, slices.Concat(fields...)}
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
func (e *episode) cause(endpoint string) []zap.Field {
	fields := []zap.Field{
		zap.String("endpoint", endpoint), zap.Stringer("state", e.state), zap.Stringer("evidence", e.evidence.Kind),
	}
	if e.evidence.Detail != "" {
		fields = append(fields, zap.String("detail", e.evidence.Detail))
	}
	return append(fields, zap.Time("since", e.begin))
}

// maxMembers bounds the endpoints that a line names.
const maxMembers = 20

// members returns the endpoints that are out in an outage of the cluster, and how many these are.
func (e *episode) members(key string, out []member) []zap.Field {
	return []zap.Field{zap.Stringers(key, out[:min(len(out), maxMembers)]), zap.Int("out", len(out)), zap.Time("since", e.begin)}
}

// summary summarizes an outage that has ended.
func (e *episode) summary() []zap.Field {
	return append([]zap.Field{zap.Duration("out-for", e.back.Sub(e.begin)), zap.Int("flaps", e.flaps)}, e.tried.fields()...)
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
