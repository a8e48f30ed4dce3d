package prometheus

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// other stands for endpoints that are not the client's, for methods beyond maxMethods, and for
// codes that gRPC does not have.
const other = "other"

// Options configures an [Observer].
type Options struct {
	// Client is the value of the label "client", which distinguishes the clients of a
	// registry. The default is "", which Prometheus treats as no label.
	Client string
}

// Observer is an [observe.Observer] that counts in Prometheus metrics, and reads the present state of the client at each
// collection: whether it is ready, calls in flight, watches and their lag, leases and the time left, budgets. The client
// attaches itself when it is made, and is detached when it is closed; a channel of a quorate.Channel likewise.
type Observer struct {
	observe.None
	shared *collector // by the clients of a registry
	client string

	picked  sync.Map     // of endpoint to *picks
	methods sync.Map     // of method to *durations, whose label all metrics of the method have
	known   atomic.Int64 // how many methods there are

	mu     sync.Mutex
	states observe.States
}

var (
	_ observe.CallObserver = (*Observer)(nil)
	_ introspect.Attacher  = (*Observer)(nil)
)

// New returns the Observer of one client, and registers the metrics if the registry does
// not have them yet. The error says that reg is missing, or that it has other metrics of
// these names.
func New(reg prometheus.Registerer, opts Options) (*Observer, error) {
	if reg == nil {
		return nil, errors.New("prometheus: no registerer: pass prometheus.DefaultRegisterer or a registry of your own")
	}
	c, err := register(reg)
	if err != nil {
		return nil, err
	}
	o := &Observer{shared: c, client: utf8text.Of(opts.Client)}
	c.add(o)
	// A counter that begins at 1 has not increased, for Prometheus.
	c.watches.WithLabelValues(o.client)
	c.leasesLost.WithLabelValues(o.client)
	return o, nil
}

// Close drops the states of the client's endpoints and its resolver's gauges. Counters stay.
// Closing the client does that too, and drops the counters of its endpoints, so only an Observer
// that was never used with a client must be closed.
func (o *Observer) Close() { o.shared.remove(o) }

// Attach is called by the client.
func (o *Observer) Attach(client introspect.Source) (detach func()) {
	return o.shared.attach(o.client, client)
}

// picks are the pick counters of an endpoint, and how long attempts there took.
type picks struct {
	by   map[observe.ConnClass]prometheus.Counter
	took durations
}

// EndpointsSet drops what there is of endpoints that are removed, and what the resolver said if
// there are none any more.
func (o *Observer) EndpointsSet(endpoints []string) {
	o.mu.Lock()
	removed := o.states.Set(endpoints)
	o.mu.Unlock()
	for _, ep := range removed {
		o.picked.Delete(ep)
	}
	o.shared.forget(o.client, removed)
	if len(endpoints) == 0 {
		o.shared.remove(o)
	} else {
		o.shared.add(o)
	}
}

// Resolved counts lists and errors of a resolver.
func (o *Observer) Resolved(e observe.Resolution) {
	if e.Err != nil {
		o.shared.resolverErrors.WithLabelValues(o.client).Inc()
		return
	}
	o.shared.updates.WithLabelValues(o.client).Inc()
	o.shared.resolved.WithLabelValues(o.client).Set(float64(e.Endpoints))
	o.shared.lastUpdate.WithLabelValues(o.client).SetToCurrentTime()
}

// Picked counts a pick. For an endpoint that was picked before it allocates nothing.
func (o *Observer) Picked(e observe.Pick) {
	by := o.picksOf(e.Endpoint).by
	count, ok := by[e.Conn]
	if !ok {
		count = by[observe.ConnCalls]
	}
	count.Inc()
}

// picksOf returns the picks of an endpoint, and keeps them if the endpoint is one of the client's.
func (o *Observer) picksOf(endpoint string) *picks {
	if known, ok := o.picked.Load(endpoint); ok {
		return known.(*picks)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	label, known := o.labelLocked(endpoint)
	made := &picks{
		by:   make(map[observe.ConnClass]prometheus.Counter),
		took: durations{make: func(code string) prometheus.Observer { return o.attemptsOf(endpoint, code) }},
	}
	for _, class := range []observe.ConnClass{observe.ConnCalls, observe.ConnStreams, observe.ConnBulk} {
		made.by[class] = o.shared.picks.WithLabelValues(o.client, label, string(class))
	}
	if known {
		o.picked.Store(endpoint, made)
	}
	return made
}

// attemptsOf returns the histogram of attempts at an endpoint that ended with a code. It holds the
// lock for the same reason as count.
func (o *Observer) attemptsOf(endpoint, code string) prometheus.Observer {
	o.mu.Lock()
	defer o.mu.Unlock()
	label, _ := o.labelLocked(endpoint)
	return o.shared.attempts.WithLabelValues(o.client, label, code)
}

// labelLocked returns the label of an endpoint, and whether it is one of the client's.
func (o *Observer) labelLocked(endpoint string) (label string, known bool) {
	if o.states.Has(endpoint) {
		return utf8text.Of(endpoint), true
	}
	return other, false
}

// count counts an event of an endpoint. It holds the lock, so that a late event does not recreate the series of a
// removed endpoint.
func (o *Observer) count(vec *prometheus.CounterVec, endpoint string, labels ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	label, _ := o.labelLocked(endpoint)
	vec.WithLabelValues(append([]string{o.client, label}, labels...)...).Inc()
}

// current returns the state of each endpoint.
func (o *Observer) current() map[string]health.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]health.State)
	for _, ep := range o.states.Endpoints() {
		all[ep], _ = o.states.Of(ep)
	}
	return all
}

// holds reports whether an endpoint is one of the client's.
func (o *Observer) holds(endpoint string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.states.Of(endpoint)
	return known
}

// StateChanged keeps the state of an endpoint, and counts how it came into it.
func (o *Observer) StateChanged(c health.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.states.Change(c) {
		o.shared.changes.WithLabelValues(o.client, utf8text.Of(c.Endpoint), c.To.String()).Inc()
	}
}

// Ejected counts an ejection.
func (o *Observer) Ejected(e observe.Ejection) {
	o.count(o.shared.ejections, e.Endpoint, e.Evidence.Kind.String())
}

// Readmitted counts a readmission.
func (o *Observer) Readmitted(e observe.Readmission) {
	o.count(o.shared.readmissions, e.Endpoint)
}

// Retried counts a retry.
func (o *Observer) Retried(e observe.Retry) {
	o.shared.retries.WithLabelValues(o.client, o.durationsOf(e.Method).label, e.Class).Inc()
}

// FailedOver counts a failover for the endpoint that was left.
func (o *Observer) FailedOver(e observe.Failover) {
	o.count(o.shared.failovers, e.From)
}

// HedgeSent counts a hedge.
func (o *Observer) HedgeSent(e observe.Hedge) {
	o.shared.hedges.WithLabelValues(o.client, o.durationsOf(e.Method).label).Inc()
}

// HedgeWon counts a hedge that won.
func (o *Observer) HedgeWon(e observe.Hedge) {
	o.shared.hedgesWon.WithLabelValues(o.client, o.durationsOf(e.Method).label).Inc()
}

// OutcomeUnknown counts an unknown outcome.
func (o *Observer) OutcomeUnknown(e observe.UnknownOutcome) {
	o.shared.unknown.WithLabelValues(o.client, o.durationsOf(e.Method).label).Inc()
}

// WatchResumed counts the watches of a stream, and measures how long they were interrupted.
func (o *Observer) WatchResumed(e observe.WatchResumption) {
	o.shared.watches.WithLabelValues(o.client).Add(float64(e.Watches))
	o.shared.gap.WithLabelValues(o.client).Observe(e.Gap.Seconds())
}

// LeaseRenewed measures a margin. One that is negative counts as 0, because the sum of a
// histogram must not fall.
func (o *Observer) LeaseRenewed(e observe.LeaseRenewal) {
	o.shared.margin.WithLabelValues(o.client).Observe(max(e.Margin.Seconds(), 0))
}

// LeaseLost counts a lost lease.
func (o *Observer) LeaseLost(observe.LeaseLoss) { o.shared.leasesLost.WithLabelValues(o.client).Inc() }

const (
	// numCodes is how many codes gRPC has, and one for others.
	numCodes = int(codes.Unauthenticated) + 2

	// maxMethods bounds the methods that have series of their own. etcd has 60.
	maxMethods = 100
)

// durations are the histograms of a method or an endpoint, by code.
type durations struct {
	label  string // of a method
	make   func(code string) prometheus.Observer
	byCode [numCodes]atomic.Pointer[prometheus.Observer]
}

// observe notes how long something took. For a code that it has met before it allocates
// nothing.
func (d *durations) observe(err error, took time.Duration) {
	code := status.Code(err)
	at := &d.byCode[min(int(code), numCodes-1)]
	known := at.Load()
	if known == nil {
		label := other // all codes that gRPC does not have share it
		if code <= codes.Unauthenticated {
			label = code.String()
		}
		made := d.make(label)
		known = &made
		at.Store(known)
	}
	(*known).Observe(took.Seconds())
}

// Called measures a call.
func (o *Observer) Called(e observe.Call) { o.durationsOf(e.Method).observe(e.Err, e.Took) }

// durationsOf returns the histograms of a method, and makes them unless another goroutine has.
func (o *Observer) durationsOf(full string) *durations {
	if known, ok := o.methods.Load(full); ok {
		return known.(*durations)
	}
	label, key := utf8text.Of(strings.TrimPrefix(full, "/")), full
	if o.known.Add(1) > maxMethods {
		label, key = other, other
	}
	known, loaded := o.methods.LoadOrStore(key, &durations{label: label, make: func(code string) prometheus.Observer {
		return o.shared.calls.WithLabelValues(o.client, label, code)
	}})
	if loaded {
		o.known.Add(-1)
	}
	return known.(*durations)
}

// Attempted measures an attempt of a call. Streams last as long as they are used, and are not measured.
func (o *Observer) Attempted(e observe.Attempt) {
	if e.Conn == observe.ConnCalls {
		o.picksOf(e.Endpoint).took.observe(e.Err, e.Took)
	}
}
