package otel_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

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
