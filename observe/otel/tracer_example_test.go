package otel_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/etcdtest"
	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
)

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
