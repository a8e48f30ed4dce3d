package otel_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
)

func ExampleNew() {
	reader := sdk.NewManualReader()
	observer, err := quorateotel.New(sdk.NewMeterProvider(sdk.WithReader(reader)), quorateotel.Options{Client: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Given to a client as Config.Observer, these are its events:
	observer.EndpointsSet([]string{"10.0.0.1:2379"})
	observer.StateChanged(health.Change{Endpoint: "10.0.0.1:2379", To: health.Serving})
	observer.Retried(observe.Retry{Method: "/etcdserverpb.KV/Range", Class: "NotSent"})

	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, m.Unit)
	}
	// Output:
	// quorate.client.endpoint.state_changes {change}
	// quorate.client.retries {retry}
	// quorate.client.endpoint.state {endpoint}
}

// Metrics of events and of the present state, and spans, by one observer.
func Example() {
	reader, exporter := sdk.NewManualReader(), tracetest.NewInMemoryExporter() // those of your backend
	meterProvider := sdk.NewMeterProvider(sdk.WithReader(reader))
	tracerProvider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))

	observer, err := quorateotel.New(meterProvider, quorateotel.Options{Client: "orders", TracerProvider: tracerProvider})
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := etcdtest.New(etcdtest.Config{Client: clientv3.Config{Observer: observer}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if _, err := cluster.Client.Get(context.Background(), "k"); err != nil {
		fmt.Println(err)
		return
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		switch m.Name {
		case "grpc.client.call.duration", "quorate.client.ready":
			fmt.Println(m.Name)
		}
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
	}
	// Unordered output:
	// grpc.client.call.duration
	// quorate.client.ready
	// etcdserverpb.KV/Range attempt
	// etcdserverpb.KV/Range
}

// Spans beside the metrics of another observer. The TracerProvider of [quorateotel.Options] makes both.
func ExampleNewTracer() {
	exporter := tracetest.NewInMemoryExporter() // that of your backend
	tracerProvider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	observer := observe.None{} // that of the metrics

	tracer, err := quorateotel.NewTracer(tracerProvider, quorateotel.Options{Client: "orders"})
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster, err := etcdtest.New(etcdtest.Config{Client: clientv3.Config{
		Observer: observe.Multi(observer, tracer),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if _, err := cluster.Client.Get(context.Background(), "k"); err != nil {
		fmt.Println(err)
		return
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// etcdserverpb.KV/Range attempt
	// etcdserverpb.KV/Range
}
