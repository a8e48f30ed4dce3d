package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/mock/fakeetcd"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
	"github.com/quorate/quorate/retry"
)

// handler is a stats handler of the program's, which remembers the span in the context of each
// RPC.
type handler struct {
	mu    sync.Mutex
	spans []trace.SpanID
}

func (h *handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if info.FullMethodName == rangeMethod {
		h.spans = append(h.spans, trace.SpanContextFromContext(ctx).SpanID())
	}
	return ctx
}

func (*handler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (*handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*handler) HandleConn(context.Context, stats.ConnStats)                       {}

// traced runs a test of a client whose spans are kept.
func traced(t *testing.T, members int, test func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client, rig *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{exporter: tracetest.NewInMemoryExporter(), handler: new(handler)}
		r.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.exporter))
		_, meters := newProvider()
		observer, err := quorateotel.New(meters, quorateotel.Options{Client: "orders", TracerProvider: r.provider})
		require.NoError(t, err)
		etcd := etcdtest.Fake(t, etcdtest.Config{Members: members, Client: clientv3.Config{
			DialOptions: []grpc.DialOption{grpc.WithStatsHandler(r.handler)},
			Observer:    observe.Multi(new(struct{ observe.None }), observer),
		}})
		test(t, etcd.Fake, etcd.Client, r)
	})
}

type rig struct {
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	handler  *handler
}

// spans returns those that have ended with a name.
func (r *rig) spans(name string) []tracetest.SpanStub {
	var all []tracetest.SpanStub
	for _, s := range r.exporter.GetSpans() {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

func value(attributes []attribute.KeyValue, key attribute.Key) any {
	for _, kv := range attributes {
		if kv.Key == key {
			return kv.Value.AsInterface()
		}
	}
	return nil
}

func events(s tracetest.SpanStub) []string {
	var names []string
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

const (
	rangeSpan   = "etcdserverpb.KV/Range"
	attemptSpan = rangeSpan + " attempt"
	hedgeSpan   = rangeSpan + " hedge"
)

// The trace of a failover has the caller's span, the call, the attempt that failed, and the one
// that repeated it elsewhere. The program's stats handler sees the spans of both attempts.
func TestSpansOfAFailover(t *testing.T) {
	traced(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client, r *rig) {
		var broken string
		hook := cluster.Once("Range", func(call *fakeetcd.Call) {
			broken = call.Member.Endpoint()
			call.BreakConn()
		})
		ctx, parent := r.provider.Tracer("program").Start(t.Context(), "order")
		_, err := c.Get(ctx, "secret-key")
		require.NoError(t, err)
		parent.End()
		synctest.Wait()
		require.Equal(t, 1, hook.Ran())

		calls, attempts := r.spans(rangeSpan), r.spans(attemptSpan)
		require.Len(t, calls, 1)
		require.Len(t, attempts, 2)
		call, first, second := calls[0], attempts[0], attempts[1]
		require.Equal(t, parent.SpanContext().SpanID(), call.Parent.SpanID())
		require.Equal(t, codes.Unset, call.Status.Code)
		require.Equal(t, []string{"retry", "failover"}, events(call))
		failover := call.Events[1].Attributes
		require.Equal(t, broken, value(failover, "quorate.failover.from"))
		require.Equal(t, value(second.Attributes, "quorate.endpoint.name"), value(failover, "quorate.failover.to"))
		require.EqualValues(t, 1, value(call.Attributes, "quorate.retries"))
		require.Equal(t, "orders", value(call.Attributes, "quorate.client.name"))
		for i, a := range attempts {
			require.Equal(t, call.SpanContext.TraceID(), a.SpanContext.TraceID())
			require.Equal(t, call.SpanContext.SpanID(), a.Parent.SpanID())
			require.Equal(t, trace.SpanKindClient, a.SpanKind)
			require.EqualValues(t, i+1, value(a.Attributes, "quorate.attempt"))
			require.Equal(t, "etcdserverpb.KV", value(a.Attributes, "rpc.service"))
			require.Equal(t, "Range", value(a.Attributes, "rpc.method"))
		}
		require.Equal(t, broken, value(first.Attributes, "quorate.endpoint.name"))
		require.Equal(t, codes.Error, first.Status.Code)
		require.EqualValues(t, grpccodes.Unavailable, value(first.Attributes, "rpc.grpc.status_code"))
		require.Equal(t, first.SpanContext.SpanID(), second.Links[0].SpanContext.SpanID())
		require.Equal(t, codes.Unset, second.Status.Code)
		r.handler.mu.Lock()
		defer r.handler.mu.Unlock()
		require.Contains(t, r.handler.spans, first.SpanContext.SpanID())
		require.Contains(t, r.handler.spans, second.SpanContext.SpanID())

		text, err := json.Marshal(r.exporter.GetSpans())
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret-key")
	})
}

func TestSpansOfAHedge(t *testing.T) {
	traced(t, 3, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client, r *rig) {
		for range 60 { // so that it is known how long a read takes
			_, err := c.Get(t.Context(), "k")
			require.NoError(t, err)
		}
		r.exporter.Reset()
		silent := cluster.Member(0)
		cluster.On("Range", func(call *fakeetcd.Call) {
			if call.Member == silent {
				_ = call.Hold(nil)
			}
		})
		for n := 0; len(r.spans(hedgeSpan)) == 0; n++ { // until one is sent to the silent member
			require.Less(t, n, 100)
			_, err := c.Get(t.Context(), "k")
			require.NoError(t, err)
		}
		time.Sleep(time.Second) // for the attempts that lost
		hedges := r.spans(hedgeSpan)
		require.NotEmpty(t, hedges)
		calls := r.spans(rangeSpan)
		i := slices.IndexFunc(calls, func(s tracetest.SpanStub) bool { return s.SpanContext.SpanID() == hedges[0].Parent.SpanID() })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, []string{"hedge"}, events(calls[i]))
		require.Equal(t, true, value(calls[i].Attributes, "quorate.hedge"))
		require.NotEqual(t, silent.Endpoint(), value(hedges[0].Attributes, "quorate.endpoint.name"))
		lost := slices.ContainsFunc(r.spans(attemptSpan), func(s tracetest.SpanStub) bool {
			return value(s.Attributes, "quorate.endpoint.name") == silent.Endpoint() &&
				value(s.Attributes, "rpc.grpc.status_code") == int64(grpccodes.Canceled)
		})
		require.True(t, lost, "the attempt that lost has a span, too")
	})
}

func TestSpanOfAnUnknownOutcome(t *testing.T) {
	traced(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client, r *rig) {
		cluster.Once("Put", func(call *fakeetcd.Call) { call.BreakConn() })
		_, err := c.Put(t.Context(), "secret-key", "secret-value")
		require.Error(t, err)
		synctest.Wait()
		calls := r.spans("etcdserverpb.KV/Put")
		require.Len(t, calls, 1)
		require.Equal(t, "unknown", value(calls[0].Attributes, "quorate.outcome"))
		require.Equal(t, codes.Error, calls[0].Status.Code)
		text, err := json.Marshal(r.exporter.GetSpans())
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret")
	})
}

// A read has no outcome, whatever its error is.
func TestSpanOfAFailedRead(t *testing.T) {
	traced(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client, r *rig) {
		cluster.On("Range", func(call *fakeetcd.Call) { call.Answer(nil, call.Hold(nil)) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Get(ctx, "k")
		require.Equal(t, retry.OutcomeUnknown, retry.OutcomeOf(err))
		synctest.Wait()
		calls := r.spans(rangeSpan)
		require.Len(t, calls, 1)
		require.Nil(t, value(calls[0].Attributes, "quorate.outcome"))
		require.Equal(t, codes.Error, calls[0].Status.Code)
	})
}

func TestSpansOfWatchesAndLeases(t *testing.T) {
	traced(t, 1, func(t *testing.T, cluster *fakeetcd.Cluster, c *clientv3.Client, r *rig) {
		ctx, parent := r.provider.Tracer("program").Start(t.Context(), "order")
		c.Watch(ctx, "secret-key")
		lease, err := c.Grant(ctx, 10)
		require.NoError(t, err)
		ch, err := c.KeepAlive(ctx, lease.ID)
		require.NoError(t, err)
		<-ch
		cluster.Member(0).Stop()
		time.Sleep(3 * time.Second)
		require.NoError(t, cluster.ExpireLease(int64(lease.ID)))
		cluster.Member(0).Start()
		time.Sleep(time.Minute)
		parent.End()

		resumed := r.spans("watch resumption")
		require.Len(t, resumed, 1)
		require.False(t, resumed[0].Parent.IsValid())
		require.GreaterOrEqual(t, resumed[0].EndTime.Sub(resumed[0].StartTime), 3*time.Second)
		require.EqualValues(t, 1, value(resumed[0].Attributes, "quorate.watches"))
		lost := r.spans("lease loss")
		require.Len(t, lost, 1)
		require.Equal(t, codes.Error, lost[0].Status.Code)
		require.NotEmpty(t, value(lost[0].Attributes, "quorate.lease.id"))
	})
}

// What the sampler leaves out costs its attempts no spans.
func TestUnsampledCalls(t *testing.T) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	tracer, err := quorateotel.NewTracer(provider, quorateotel.Options{})
	require.NoError(t, err)
	ctx, call := tracer.StartCall(t.Context(), pb.KV_Range_FullMethodName)
	require.Nil(t, call)
	require.True(t, trace.SpanContextFromContext(ctx).IsValid(), "the decision reaches the attempts")
	_, err = quorateotel.NewTracer(nil, quorateotel.Options{})
	require.Error(t, err)
}

// Text that is not UTF-8 would keep an exporter from sending anything: it is quoted.
func TestTextThatIsNotUTF8(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	reader, provider := newProvider()
	o, err := quorateotel.New(provider, quorateotel.Options{
		Client: "\xfe", TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
	})
	require.NoError(t, err)
	o.EndpointsSet([]string{"\xfe"})
	o.Picked(observe.Pick{Endpoint: "\xfe", Method: "/\xfe", Conn: observe.ConnCalls})
	o.StateChanged(health.Change{Endpoint: "\xfe", To: health.Dead})
	o.FailedOver(observe.Failover{From: "\xfe"})
	o.HedgeSent(observe.Hedge{Method: "/\xfe"})
	o.Attach(client{"\xfe"})
	ctx, call := o.StartCall(t.Context(), "/\xfe")
	for _, ep := range []string{"\xfe", "a"} {
		_, attempt := call.StartAttempt(ctx, false)
		attempt.End(ep, errors.New("\xfe"))
	}
	call.End(observe.Call{Method: "/\xfe"})
	o.WatchResumed(observe.WatchResumption{Endpoint: "\xfe"})
	o.LeaseLost(observe.LeaseLoss{Err: errors.New("\xfe")})
	text, err := json.Marshal([]any{collect(t, reader), exporter.GetSpans()})
	require.NoError(t, err)
	require.NotContains(t, string(text), `\ufffd`)
	require.Contains(t, string(text), `\xfe`)
	require.NoError(t, o.Close())
}

// A retry at the same endpoint is no failover.
func TestARetryAtTheSameEndpoint(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracer, err := quorateotel.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), quorateotel.Options{})
	require.NoError(t, err)
	ctx, call := tracer.StartCall(t.Context(), rangeMethod)
	for _, err := range []error{status.Error(grpccodes.Unavailable, "no"), nil} {
		_, attempt := call.StartAttempt(ctx, false)
		attempt.End("a", err)
	}
	call.End(observe.Call{Method: rangeMethod, Retries: 1})
	spans := exporter.GetSpans()
	require.Len(t, spans, 3)
	require.Equal(t, []string{"retry"}, events(spans[2]))
	tracer.LeaseLost(observe.LeaseLoss{ID: 0x694d, Err: errors.New("gone")})
	last := exporter.GetSpans()[3]
	require.Equal(t, "694d", value(last.Attributes, "quorate.lease.id"))
}
