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
	quorateotel "github.com/quorate/quorate/observe/otel"
)

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
