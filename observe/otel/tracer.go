package otel

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/utf8text"
	"github.com/quorate/quorate/observe"
	"github.com/quorate/quorate/retry"
)

// The attributes of spans and of their events.
const (
	systemKey     = attribute.Key("rpc.system")
	serviceKey    = attribute.Key("rpc.service")
	statusCodeKey = attribute.Key("rpc.grpc.status_code")
	attemptKey    = attribute.Key("quorate.attempt")
	hedgeKey      = attribute.Key("quorate.hedge")
	retriesKey    = attribute.Key("quorate.retries")
	outcomeKey    = attribute.Key("quorate.outcome")
	fromKey       = attribute.Key("quorate.failover.from")
	toKey         = attribute.Key("quorate.failover.to")
	watchesKey    = attribute.Key("quorate.watches")
	leaseKey      = attribute.Key("quorate.lease.id")
)

// Tracer is an [observe.Tracer] that makes OpenTelemetry spans. Set it as a
// client's Config.Observer, alone or, by [observe.Multi], together with others.
//
// A call of the API is one span, a child of the one in the caller's context, and has the name of
// the method, "etcdserverpb.KV/Range". Each attempt is a child of it, a hedge too, with the
// endpoint it went to; a retry links to the attempt that it repeats. "retry", "hedge" and
// "failover" are events of the call. The context of an attempt holds its span, so what a stats
// handler or an interceptor of the program makes of it, otelgrpc for instance, is a child. The
// Tracer sends nothing to servers; otelgrpc does.
//
// Watches and leases outlive the calls that began them. When watches continue on another stream, a span "watch
// resumption" lasts as long as they were interrupted. A lost lease is a span "lease loss" without duration. Both are
// roots.
//
// A span holds no key and no value. The sampler decides which calls have one; a call whose span is not recorded has none
// for its attempts.
type Tracer struct {
	observe.None
	tracer  trace.Tracer
	client  []attribute.KeyValue
	methods sync.Map     // of method to *spanned, at most maxMethods
	known   atomic.Int64 // calls for a method that was not stored
}

// spanned is what the spans of a method have in common. It is made once, because most calls are
// not sampled.
type spanned struct {
	call, attempt, hedge string // names
	options              []trace.SpanStartOption
}

var _ observe.Tracer = (*Tracer)(nil)

// NewTracer returns the Tracer of one client. The error says that the provider is missing.
func NewTracer(provider trace.TracerProvider, opts Options) (*Tracer, error) {
	if provider == nil {
		return nil, errors.New("otel: no tracer provider: pass otel.GetTracerProvider() or one of your own")
	}
	t := &Tracer{tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(version()))}
	if opts.Client != "" {
		t.client = utf8Only([]attribute.KeyValue{clientKey.String(opts.Client)})
	}
	return t, nil
}

// spannedOf returns what the spans of a method have.
func (t *Tracer) spannedOf(full string) *spanned {
	if known, ok := t.methods.Load(full); ok {
		return known.(*spanned)
	}
	path := strings.TrimPrefix(full, "/")
	service, name, _ := strings.Cut(path, "/")
	attributes := append([]attribute.KeyValue{systemKey.String("grpc"), serviceKey.String(service), methodKey.String(name)}, t.client...)
	path = utf8text.Of(path)
	made := &spanned{
		call: path, attempt: path + " attempt", hedge: path + " hedge",
		options: []trace.SpanStartOption{trace.WithAttributes(utf8Only(attributes)...)},
	}
	if t.known.Add(1) <= maxMethods {
		t.methods.Store(full, made)
	}
	return made
}

// StartCall starts the span of a call.
func (t *Tracer) StartCall(ctx context.Context, method string) (context.Context, observe.CallTrace) {
	s := t.spannedOf(method)
	ctx, span := t.tracer.Start(ctx, s.call, s.options...)
	if !span.IsRecording() {
		return ctx, nil
	}
	return ctx, &callTrace{spanned: s, tracer: t.tracer, span: span}
}

type callTrace struct {
	*spanned
	tracer trace.Tracer
	span   trace.Span

	mu     sync.Mutex
	number int           // of attempts
	failed *attemptTrace // the latest that failed and is no hedge, nil if there is none
}

// StartAttempt starts the span of an attempt.
func (c *callTrace) StartAttempt(ctx context.Context, hedge bool) (context.Context, observe.AttemptTrace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	a := &attemptTrace{call: c, hedge: hedge}
	options := append(slices.Clone(c.options), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attemptKey.Int(c.number), hedgeKey.Bool(hedge)))
	name := c.attempt
	switch {
	case hedge:
		name = c.hedge
		c.span.AddEvent("hedge", trace.WithAttributes(attemptKey.Int(c.number)))
	case c.failed != nil:
		a.after = c.failed
		options = append(options, trace.WithLinks(trace.Link{SpanContext: a.after.span.SpanContext()}))
		c.span.AddEvent("retry", trace.WithAttributes(attemptKey.Int(c.number)))
	}
	ctx, a.span = c.tracer.Start(ctx, name, options...)
	return ctx, a
}

// End ends the span of the call.
func (c *callTrace) End(e observe.Call) {
	c.span.SetAttributes(retriesKey.Int(e.Retries), hedgeKey.Bool(e.Hedged))
	if e.Err != nil && retry.SafetyOf(e.Method, nil) == retry.Mutating && retry.OutcomeOf(e.Err) == retry.OutcomeUnknown {
		c.span.SetAttributes(outcomeKey.String("unknown"))
	}
	end(c.span, e.Err)
}

// end ends the span of a call or an attempt that ended with err, which may be nil.
func end(span trace.Span, err error) {
	span.SetAttributes(statusCodeKey.Int(int(status.Code(err))))
	if err != nil {
		span.SetStatus(codes.Error, utf8text.Of(err.Error()))
	}
	span.End()
}

type attemptTrace struct {
	call     *callTrace
	span     trace.Span
	hedge    bool
	after    *attemptTrace // that it repeats, nil if there is none
	endpoint string        // once it has ended
}

// End ends the span of the attempt.
func (a *attemptTrace) End(endpoint string, err error) {
	c := a.call
	endpoint = utf8text.Of(endpoint)
	c.mu.Lock()
	a.endpoint = endpoint
	if err != nil && !a.hedge {
		c.failed = a
	}
	c.mu.Unlock()
	if endpoint != "" {
		a.span.SetAttributes(endpointKey.String(endpoint))
	}
	if from := a.after; from != nil && from.endpoint != "" && endpoint != "" && from.endpoint != endpoint {
		c.span.AddEvent("failover", trace.WithAttributes(fromKey.String(from.endpoint), toKey.String(endpoint)))
	}
	end(a.span, err)
}

// WatchResumed makes a span of a resumption.
func (t *Tracer) WatchResumed(e observe.WatchResumption) {
	now := time.Now()
	t.root("watch resumption", now.Add(-e.Gap), watchesKey.Int(e.Watches), endpointKey.String(utf8text.Of(e.Endpoint))).End(trace.WithTimestamp(now))
}

// LeaseLost makes a span of a loss. The ID is in hexadecimal, as etcdctl shows it.
func (t *Tracer) LeaseLost(e observe.LeaseLoss) {
	span := t.root("lease loss", time.Now(), leaseKey.String(strconv.FormatInt(e.ID, 16)))
	if e.Err != nil {
		span.SetStatus(codes.Error, utf8text.Of(e.Err.Error()))
	}
	span.End()
}

// root starts a span that belongs to no call.
func (t *Tracer) root(name string, begin time.Time, attributes ...attribute.KeyValue) trace.Span {
	_, span := t.tracer.Start(context.Background(), name, trace.WithNewRoot(), trace.WithTimestamp(begin), trace.WithAttributes(append(attributes, t.client...)...))
	return span
}
