package outage

import (
	"go.uber.org/zap"

	"github.com/quorate/quorate/health"
)

type kind uint8

const (
	endpointOut kind = iota
	endpointBack
	endpointRemoved
	clusterOut
	clusterBack
	endpointChanged
	clusterChanged
)

type line struct {
	kind     kind
	endpoint string
	episode  episode
	members  []member // the endpoints that are out, in a line about the cluster
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

func (l *line) write(lg *zap.Logger) {
	switch l.kind {
	case endpointOut:
		lg.Warn("an endpoint is out", append(l.cause(), l.attempts()...)...)
	case endpointBack:
		lg.Info("an endpoint serves again", append(l.cause(), l.summary()...)...)
	case endpointRemoved:
		lg.Info("an endpoint that was out has been removed", append(l.cause(), l.summary()...)...)
	case clusterOut:
		lg.Warn("no endpoint can serve", append(l.endpoints("endpoints"), l.attempts()...)...)
	case clusterBack:
		lg.Info("the cluster serves again", append(l.endpoints("still-out"), l.summary()...)...)
	case endpointChanged:
		lg.Warn("an endpoint is out for another reason", append(l.cause(), l.attempts()...)...)
	case clusterChanged:
		lg.Warn("no endpoint can serve, for another reason", append(l.endpoints("endpoints"), l.attempts()...)...)
	}
}

// cause returns the evidence for the outage of an endpoint.
func (l *line) cause() []zap.Field {
	e := &l.episode
	fields := []zap.Field{
		zap.String("endpoint", l.endpoint), zap.Stringer("state", e.state), zap.Stringer("evidence", e.evidence.Kind),
	}
	if e.evidence.Detail != "" {
		fields = append(fields, zap.String("detail", e.evidence.Detail))
	}
	return append(fields, zap.Time("since", e.begin))
}

// endpoints returns the endpoints that are out.
func (l *line) endpoints(key string) []zap.Field {
	return []zap.Field{zap.Stringers(key, l.members), zap.Time("since", l.episode.begin)}
}

// summary summarizes an outage that has ended.
func (l *line) summary() []zap.Field {
	e := &l.episode
	return append([]zap.Field{zap.Duration("out-for", e.back.Sub(e.begin)), zap.Int("flaps", e.flaps)}, l.attempts()...)
}

func (l *line) attempts() []zap.Field {
	t := &l.episode.tried
	fields := []zap.Field{
		zap.Int("retries", t.retries), zap.Int("failovers", t.failovers),
		zap.Int("hedges", t.hedges), zap.Int("unknown-outcomes", t.unknown),
	}
	if t.lastErr != nil {
		fields = append(fields, zap.NamedError("last-error", t.lastErr))
	}
	return fields
}
