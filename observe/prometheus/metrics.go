package prometheus

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

var (
	// marginBuckets reach from a lease whose renewal comes too late to one of minutes. The
	// usual margin is two thirds of the TTL.
	marginBuckets = []float64{0, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300}

	// gapBuckets reach from a stream that moves to an outage of a minute.
	gapBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

	// callBuckets reach from a read in a data centre to a call that outlives an election of
	// the servers and an outage. They are fewer than gRPC's own 41, because each is a series for
	// every method and code.
	callBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20}
)

// metrics has the metrics that all clients of a registry share.
type metrics struct {
	vectors *prometheus.Registry // has the vectors below

	picks, ejections, readmissions, changes, failovers *prometheus.CounterVec // by endpoint
	retries, hedges, hedgesWon, unknown                *prometheus.CounterVec // by method
	watches, leasesLost                                *prometheus.CounterVec
	updates, resolverErrors                            *prometheus.CounterVec
	gap, margin, calls, attempts                       *prometheus.HistogramVec
	resolved, lastUpdate                               *prometheus.GaugeVec

	state   *prometheus.Desc
	present descs // of the present state of clients
}

func newMetrics() metrics {
	own := prometheus.NewRegistry()
	with := promauto.With(own)
	counter := func(metric, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name(metric), Help: help}, append([]string{"client"}, labels...))
	}
	gauge := func(metric, help string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Name: name(metric), Help: help}, []string{"client"})
	}
	histogram := func(metric, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return with.NewHistogramVec(prometheus.HistogramOpts{Name: name(metric), Help: help, Buckets: buckets}, append([]string{"client"}, labels...))
	}
	return metrics{
		vectors:        own,
		picks:          counter("picks_total", "Attempts of calls and openings of streams that were given the endpoint.", "endpoint", "connection"),
		ejections:      counter("ejections_total", "Times that the endpoint was taken out of use, by the kind of evidence.", "endpoint", "reason"),
		readmissions:   counter("readmissions_total", "Times that the endpoint was taken back into use.", "endpoint"),
		changes:        counter("endpoint_state_changes_total", "Times that the endpoint came into the state.", "endpoint", "state"),
		failovers:      counter("failovers_total", "Calls and streams that failed at the endpoint and went on at another one.", "endpoint"),
		retries:        counter("retries_total", "Attempts that failed and were repeated, by the class of the error.", "method", "class"),
		hedges:         counter("hedges_total", "Reads that were sent to a second endpoint.", "method"),
		hedgesWon:      counter("hedges_won_total", "Reads that the second endpoint answered first.", "method"),
		unknown:        counter("unknown_outcomes_total", "Writes that failed and may have been executed.", "method"),
		watches:        counter("watches_resumed_total", "Watches that continued on another stream."),
		leasesLost:     counter("leases_lost_total", "Leases that were to be kept alive and ended, or may have."),
		updates:        counter("resolver_updates_total", "Lists of endpoints that the resolver gave."),
		resolverErrors: counter("resolver_errors_total", "Errors that the resolver reported."),
		resolved:       gauge("resolver_endpoints", "Endpoints in the resolver's last list."),
		lastUpdate:     gauge("resolver_last_update_timestamp_seconds", "When the resolver gave its last list."),
		gap: histogram("watch_gap_seconds",
			"Time from the end of a watch stream until its watches continued on another one.", gapBuckets),
		margin: histogram("lease_margin_seconds",
			"Time that was left to a lease when its renewal arrived; 0 if none was.", marginBuckets),
		calls: histogram("call_duration_seconds",
			"Time from the beginning of a call to its end, with all attempts and pauses, by the code of its result.", callBuckets, "method", "code"),
		attempts: histogram("attempt_duration_seconds",
			"Time that an attempt of a call took at the endpoint; streams are none.", callBuckets, "endpoint", "code"),
		state: prometheus.NewDesc(name("endpoint_state"),
			"How many clients of the name hold the endpoint to be in the state: 1 for its state and 0 for the others, with one client.",
			[]string{"client", "endpoint", "state"}, nil),
		present: newDescs(introspect.Every(), nil, "client"),
	}
}

func name(metric string) string { return prometheus.BuildFQName("quorate", "client", metric) }

// vec has a series for each combination of label values, which are given in the order of the labels.
type vec interface {
	DeleteLabelValues(values ...string) bool
}

// byEndpoint returns the metrics that have an endpoint, each with the values of the labels after it.
func (m *metrics) byEndpoint() map[vec][][]string {
	return map[vec][][]string{
		m.picks:        {{string(observe.ConnCalls)}, {string(observe.ConnStreams)}, {string(observe.ConnBulk)}},
		m.ejections:    names(health.Removed),
		m.readmissions: {nil},
		m.changes:      names(health.Dead),
		m.failovers:    {nil},
		m.attempts:     append(names(codes.Unauthenticated), []string{other}),
	}
}

// names returns the names of a type's values up to the last one.
func names[T health.Kind | health.State | codes.Code](last T) (all [][]string) {
	for value := T(0); value <= last; value++ {
		all = append(all, []string{fmt.Sprint(value)})
	}
	return all
}
