package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/observe/introspect"
)

// The attributes of the metrics.
const (
	clientKey   = attribute.Key("quorate.client.name")
	endpointKey = attribute.Key("quorate.endpoint.name")
	stateKey    = attribute.Key("quorate.endpoint.state")
	reasonKey   = attribute.Key("quorate.ejection.reason")
	connKey     = attribute.Key("quorate.connection")
	classKey    = attribute.Key("quorate.retry.class")
	methodKey   = attribute.Key("rpc.method")
)

// other stands for all endpoints that are not the client's, and for methods beyond maxMethods.
const other = "other"

// Options configures an [Observer] or a [Tracer].
type Options struct {
	// Client is the value of the attribute "quorate.client.name", which distinguishes the clients of a provider:
	// of two clients with the same name, or without one, the provider has the gauges of only one. The default is
	// "", without the attribute.
	Client string
	// TracerProvider makes an Observer a [Tracer] too. The default is none.
	TracerProvider trace.TracerProvider
}

// Observer is an [observe.Observer] that counts in OpenTelemetry metrics, and reports the present state of the client at
// each collection: whether it is ready, calls in flight, watches and their lag, leases and the time left, budgets. The
// client attaches itself when it is made, and is detached when it is closed; a channel of a quorate.Channel likewise.
type Observer struct {
	observe.None
	attached introspect.Channels
	tracer   *Tracer // nil without a TracerProvider

	*instruments
	client   []attribute.KeyValue // the client's name, if it has one
	plain    metric.MeasurementOption
	callback metric.Registration
	present  metric.Registration // of the present state

	picked  sync.Map     // of endpoint to picks
	methods sync.Map     // of method to *methodOptions
	known   atomic.Int64 // how many methods there are
	closed  atomic.Bool

	mu     sync.Mutex
	states observe.States
}

var (
	_ observe.CallObserver = (*Observer)(nil)
	_ observe.Tracer       = (*Observer)(nil)
	_ introspect.Attacher  = (*Observer)(nil)
)

// New returns the Observer of one client. The error says that the provider is missing, or
// is an error of the provider about an instrument.
func New(provider metric.MeterProvider, opts Options) (*Observer, error) {
	if provider == nil {
		return nil, errors.New("otel: no meter provider: pass otel.GetMeterProvider() or one of your own")
	}
	meter := newMeter(provider)
	instruments, err := newInstruments(meter)
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	o := &Observer{instruments: instruments}
	if opts.Client != "" {
		o.client = []attribute.KeyValue{clientKey.String(opts.Client)}
	}
	o.plain = o.with()
	if o.callback, err = meter.RegisterCallback(o.collected, o.state); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	if o.present, err = observeMetrics(provider, o.client, clientKeys, introspect.Every, o.attached.Metrics); err != nil {
		_ = o.callback.Unregister() // the caller gets the first error
		return nil, err
	}
	if opts.TracerProvider != nil {
		o.tracer, err = NewTracer(opts.TracerProvider, opts)
	}
	return o, err
}

// Attach is called by the client.
func (o *Observer) Attach(client introspect.Source) (detach func()) { return o.attached.Add(client) }

// StartCall starts the span of a call, if the Observer is a Tracer too.
func (o *Observer) StartCall(ctx context.Context, method string) (context.Context, observe.CallTrace) {
	if o.tracer == nil {
		return ctx, nil
	}
	return o.tracer.StartCall(ctx, method)
}

func clientKeys(label string) attribute.Key {
	switch label {
	case "endpoint":
		return endpointKey
	case "state":
		return "quorate.watch.state"
	default:
		return attribute.Key("quorate." + label + ".name")
	}
}

// Close ends the reports of endpoint states and of the present state. What was counted stays. It returns the
// provider's errors. A client that is closed has nothing to report any more, but the provider keeps the
// Observer until Close.
func (o *Observer) Close() error {
	o.closed.Store(true)
	o.eachTally((*tally).end)
	return errors.Join(o.callback.Unregister(), o.present.Unregister())
}

func (o *Observer) with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(utf8Only(append(attributes, o.client...))...))
}

// collected reports the tallies and the present states.
func (o *Observer) collected(_ context.Context, to metric.Observer) error {
	o.eachTally((*tally).flush)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ep := range o.states.Endpoints() {
		current, _ := o.states.Of(ep)
		for state := health.Unknown; state <= health.Dead; state++ {
			var value int64
			if state == current {
				value = 1
			}
			to.ObserveInt64(o.state, value, o.with(endpointKey.String(ep), stateKey.String(state.String())))
		}
	}
	return nil
}

// EndpointsSet ends the reports of the states of endpoints that are removed.
func (o *Observer) EndpointsSet(endpoints []string) {
	o.mu.Lock()
	removed := o.states.Set(endpoints)
	o.mu.Unlock()
	for _, ep := range removed {
		if known, ok := o.picked.LoadAndDelete(ep); ok {
			known.(picks).each((*tally).end)
		}
	}
}

// Resolved counts lists and errors of a resolver.
func (o *Observer) Resolved(e observe.Resolution) {
	if e.Err != nil {
		o.count(o.resolverErrors, 1)
		return
	}
	o.count(o.updates, 1)
	o.resolved.Record(context.Background(), int64(e.Endpoints), o.plain)
}

// picks count the picks of an endpoint.
type picks map[observe.ConnClass]*tally

func (p picks) each(do func(*tally)) {
	for _, t := range p {
		do(t)
	}
}

// Picked counts a pick.
func (o *Observer) Picked(e observe.Pick) {
	known, ok := o.picked.Load(e.Endpoint)
	if !ok {
		known = o.picksOf(e.Endpoint)
	}
	by := known.(picks)
	count, ok := by[e.Conn]
	if !ok {
		count = by[observe.ConnCalls]
	}
	count.inc()
	o.optionsOfMethod(e.Method).started.inc()
}

// picksOf returns the counters for the picks of an endpoint, and keeps them if the endpoint is one of the client's.
func (o *Observer) picksOf(endpoint string) picks {
	o.mu.Lock()
	defer o.mu.Unlock()
	if made, ok := o.picked.Load(endpoint); ok {
		return made.(picks)
	}
	known := o.states.Has(endpoint)
	name := endpoint
	if !known {
		name = other
	}
	p := make(picks)
	for _, class := range []observe.ConnClass{observe.ConnCalls, observe.ConnStreams, observe.ConnBulk} {
		p[class] = &tally{counter: o.picks, options: []metric.AddOption{o.with(endpointKey.String(name), connKey.String(string(class)))}}
	}
	if known {
		o.picked.Store(endpoint, p)
	}
	if !known || o.closed.Load() {
		p.each((*tally).end)
	}
	return p
}

func (o *Observer) endpoint(name string) attribute.KeyValue {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.states.Has(name) {
		name = other
	}
	return endpointKey.String(name)
}

// StateChanged records the state of an endpoint, and counts the change.
func (o *Observer) StateChanged(c health.Change) {
	o.mu.Lock()
	known := o.states.Change(c)
	o.mu.Unlock()
	if known {
		o.count(o.changes, 1, endpointKey.String(c.Endpoint), stateKey.String(c.To.String()))
	}
}

func (o *Observer) count(counter metric.Int64Counter, n int, attributes ...attribute.KeyValue) {
	counter.Add(context.Background(), int64(n), o.with(attributes...))
}

// Ejected counts an ejection.
func (o *Observer) Ejected(e observe.Ejection) {
	o.count(o.ejections, 1, o.endpoint(e.Endpoint), reasonKey.String(e.Evidence.Kind.String()))
}

// Readmitted counts a readmission.
func (o *Observer) Readmitted(e observe.Readmission) {
	o.count(o.readmissions, 1, o.endpoint(e.Endpoint))
}

// Retried counts a retry.
func (o *Observer) Retried(e observe.Retry) {
	o.count(o.retries, 1, o.method(e.Method), classKey.String(e.Class))
}

// FailedOver counts a failover for the endpoint that was left.
func (o *Observer) FailedOver(e observe.Failover) { o.count(o.failovers, 1, o.endpoint(e.From)) }

// HedgeSent counts a hedge.
func (o *Observer) HedgeSent(e observe.Hedge) { o.count(o.hedges, 1, o.method(e.Method)) }

// HedgeWon counts a hedge that won.
func (o *Observer) HedgeWon(e observe.Hedge) { o.count(o.hedgeWins, 1, o.method(e.Method)) }

// OutcomeUnknown counts an unknown outcome.
func (o *Observer) OutcomeUnknown(e observe.UnknownOutcome) {
	o.count(o.unknown, 1, o.method(e.Method))
}

// WatchResumed counts the watches of a stream, and measures how long they were interrupted.
func (o *Observer) WatchResumed(e observe.WatchResumption) {
	o.count(o.watches, e.Watches)
	o.gap.Record(context.Background(), e.Gap.Seconds(), o.plain)
	if o.tracer != nil {
		o.tracer.WatchResumed(e)
	}
}

// LeaseRenewed measures a margin. A negative one counts as 0, because histograms are not
// for negative values.
func (o *Observer) LeaseRenewed(e observe.LeaseRenewal) {
	o.margin.Record(context.Background(), max(e.Margin.Seconds(), 0), o.plain)
}

// LeaseLost counts a lost lease.
func (o *Observer) LeaseLost(e observe.LeaseLoss) {
	o.count(o.leasesLost, 1)
	if o.tracer != nil {
		o.tracer.LeaseLost(e)
	}
}

// method returns the attribute of a method, or of all others.
func (o *Observer) method(full string) attribute.KeyValue {
	return attribute.KeyValue{Key: methodKey, Value: o.optionsOfMethod(full).method.Value}
}

// The attributes of gRFC A66.
const (
	grpcMethodKey = attribute.Key("grpc.method")
	grpcStatusKey = attribute.Key("grpc.status")
)

// maxMethods bounds the methods that have series of their own. etcd has 60.
const maxMethods = 100

// methodOptions has the attributes of a method, and the tally of its attempts.
type methodOptions struct {
	method  attribute.KeyValue
	started tally
	record  []metric.RecordOption
	// byStatus are made when they are first needed; the last one is for codes that gRPC does not
	// have.
	byStatus [codes.Unauthenticated + 2]atomic.Pointer[[]metric.RecordOption]
}

// optionsOfMethod returns the options of a method, which all methods beyond maxMethods share.
func (o *Observer) optionsOfMethod(full string) *methodOptions {
	if known, ok := o.methods.Load(full); ok {
		return known.(*methodOptions)
	}
	key, name := full, strings.TrimPrefix(full, "/")
	if o.known.Add(1) > maxMethods {
		key, name = other, other
	}
	m := &methodOptions{method: grpcMethodKey.String(name)}
	m.started.counter, m.started.options = o.started, []metric.AddOption{o.with(m.method)}
	m.record = []metric.RecordOption{o.with(m.method)}
	known, loaded := o.methods.LoadOrStore(key, m)
	if loaded {
		o.known.Add(-1)
	}
	m = known.(*methodOptions)
	if o.closed.Load() {
		m.started.end()
	}
	return m
}

// with returns the options for a call or an attempt that ended with err, which may be nil.
func (m *methodOptions) with(o *Observer, err error) []metric.RecordOption {
	code := status.Code(err)
	at := &m.byStatus[min(int(code), len(m.byStatus)-1)]
	if known := at.Load(); known != nil {
		return *known
	}
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	made := []metric.RecordOption{o.with(m.method, grpcStatusKey.String(rpccode.Code(code).String()))} //nolint:gosec // it is at most 16
	at.Store(&made)
	return made
}

// Called measures a call.
func (o *Observer) Called(e observe.Call) {
	ctx, m := context.Background(), o.optionsOfMethod(e.Method)
	o.calls.Record(ctx, e.Took.Seconds(), m.with(o, e.Err)...)
	if e.Retries > 0 {
		o.callRetries.Record(ctx, int64(e.Retries), m.record...)
		o.retryDelay.Record(ctx, e.Paused.Seconds(), m.record...)
	}
	if e.Hedged {
		o.callHedges.Record(ctx, 1, m.record...)
	}
}

// Attempted measures an attempt.
func (o *Observer) Attempted(e observe.Attempt) {
	o.attempts.Record(context.Background(), e.Took.Seconds(), o.optionsOfMethod(e.Method).with(o, e.Err)...)
}
