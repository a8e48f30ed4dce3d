package otel

import (
	"context"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/observe"
)

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
