package observe

import (
	"time"

	"github.com/quorate/quorate/health"
)

// ConnClass is the connection class of an attempt.
type ConnClass string

const (
	// ConnCalls is the class of calls.
	ConnCalls ConnClass = "calls"
	// ConnStreams is the class of watches and other long-lived streams.
	ConnStreams ConnClass = "streams"
	// ConnBulk is the class of snapshots and other large transfers.
	ConnBulk ConnClass = "bulk"
)

// Pick reports the endpoint picked for an attempt.
type Pick struct {
	Endpoint string
	Method   string // full name
	Conn     ConnClass
}

// Resolution reports an update of a resolver.
type Resolution struct {
	// Target is the channel's target, such as "dns:///backend:50051".
	Target string
	// Endpoints is how many there are now.
	Endpoints int
	// Err is why there are none, or why they may be out of date; nil for a new list.
	Err error
}

// Ejection reports that an endpoint is no longer used, because a better one is there.
type Ejection struct {
	Endpoint string
	// State is the endpoint's state, and Evidence what led to it.
	State    health.State
	Evidence health.Evidence
}

// Readmission reports that an endpoint is used again.
type Readmission struct {
	Endpoint string
	// After is how long it was ejected.
	After time.Duration
}

// Retry reports that a call or the opening of a stream failed and will be repeated.
type Retry struct {
	Method string // full name
	// Endpoint is where it failed, "" if none was picked.
	Endpoint string
	// Class is the name of the retry.Class of the error.
	Class string
	Err   error
}

// Failover reports that a call or stream that failed at one endpoint continues at
// another.
type Failover struct {
	Method   string // full name
	From, To string // endpoints
	// Err is the error at From.
	Err error
}

// Hedge reports that a read was sent to a second endpoint.
type Hedge struct {
	Method string // full name
	// First is the slow endpoint, Second the other one.
	First, Second string
}

// UnknownOutcome reports that a write may or may not have been executed.
type UnknownOutcome struct {
	Method string // full name
	// Endpoint is where it was sent, "" if that is not known.
	Endpoint string
	Err      error
}

// WatchResumption reports that watches resumed on another stream.
type WatchResumption struct {
	// Endpoint is the endpoint of the new stream, "" if unknown.
	Endpoint string
	// Watches is the number of resumed watches; watches that share a stream break
	// together.
	Watches int
	// Gap is the time between the end of the old stream and the first sign of life of a
	// watch on the new one.
	Gap time.Duration
}

// LeaseRenewal reports the renewal of a lease.
type LeaseRenewal struct {
	ID int64
	// Margin is the remaining time of the lease when the response arrived, as the client
	// computes it: the TTL counts from the sending of the previous answered request. It is
	// negative if that TTL had passed; the lease is alive nevertheless, because the leader
	// counts from a later moment. About two thirds of the TTL are normal.
	Margin time.Duration
	// TTL is the TTL that the server granted.
	TTL time.Duration
}

// LeaseLoss reports that a lease under keepalive has ended, or may have.
type LeaseLoss struct {
	ID int64
	// Err is rpctypes.ErrLeaseNotFound if the server returned that, and otherwise why the
	// lease was not renewed in time.
	Err error
}

// Metric is one value of a gauge or a counter. Packages observe/pools and observe/introspect, and each
// [MetricSource], make them for observe/prometheus, observe/otel and other metrics libraries.
type Metric struct {
	// Name has the form of OpenTelemetry, "quorate.pool.waiting", and Unit that of UCUM.
	Name, Unit, Description string
	// Counter is true for a counter, false for a gauge.
	Counter bool
	// Labels distinguish metrics of one name.
	Labels []Label
	Value  float64
}

// Label has a name of one word, such as "state", and a value.
type Label struct{ Name, Value string }

// By returns the metric with another label.
func (m Metric) By(name, value string) Metric {
	m.Labels = append(m.Labels[:len(m.Labels):len(m.Labels)], Label{name, value})
	return m
}

// Gauge returns a metric that rises and falls.
func Gauge(name, unit, description string, value float64) Metric {
	return Metric{Name: name, Unit: unit, Description: description, Value: value}
}

// Counter returns a metric that only rises.
func Counter(name, unit, description string, value float64) Metric {
	return Metric{Name: name, Unit: unit, Description: description, Counter: true, Value: value}
}

// MetricSource is implemented by *batch.KV, *cache.Cache, *cache.Informer, *idempotent.KV and *leaderelection.Metrics.
// Metrics returns at least one metric of each name.
type MetricSource interface{ Metrics() []Metric }
