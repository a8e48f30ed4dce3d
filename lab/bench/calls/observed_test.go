package calls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/observe"
	quorateotel "github.com/quorate/quorate/observe/otel"
	quorateprom "github.com/quorate/quorate/observe/prometheus"
)

// observers are what a get is measured with.
func observers(b *testing.B) map[string]observe.Observer {
	prom, err := quorateprom.New(prometheus.NewRegistry(), quorateprom.Options{Client: "orders"})
	require.NoError(b, err)
	otel, err := quorateotel.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), quorateotel.Options{Client: "orders"})
	require.NoError(b, err)
	tracer := func(part float64) *quorateotel.Tracer {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(part)))
		tracer, err := quorateotel.NewTracer(provider, quorateotel.Options{Client: "orders"})
		require.NoError(b, err)
		return tracer
	}
	return map[string]observe.Observer{
		"nobody": nil, "prometheus": prom, "otel": otel, "spans-of-1%": tracer(0.01), "spans-of-all": tracer(1),
		"prometheus+spans-of-1%": observe.Multi(prom, tracer(0.01)),
	}
}

// BenchmarkObservedGet measures what observers add to a get of a client that nobody observes. The
// unit X-cpu is the CPU time of a get in this process by that of the one without, and X-rate
// the throughput.
func BenchmarkObservedGet(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compareObserved(b, callers) })
	}
}

func compareObserved(b *testing.B, callers int) {
	cluster, err := lab.Start(b.Context(), lab.Config{Members: 1, Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Close()) })
	all := make([]contender, 0, len(observers(b)))
	for name, o := range observers(b) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{cluster.Members()[0].DirectEndpoint()}, Logger: zap.NewNop(), Observer: o,
		})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, client.Close()) })
		get := func(ctx context.Context) error { _, err := client.Get(ctx, key); return err }
		require.NoError(b, get(b.Context()))
		all = append(all, contender{name: name, get: get})
	}
	cpus, rates, allocs := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		round := map[string]sample{}
		for _, i := range rand.Perm(len(all)) {
			round[all[i].name] = measure(b, callers, all[i].get)
		}
		for name, s := range round {
			cpus[name] = append(cpus[name], s.cpu/round["nobody"].cpu)
			rates[name] = append(rates[name], s.rate/round["nobody"].rate)
			allocs[name] = append(allocs[name], s.allocs-round["nobody"].allocs)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name := range cpus {
		if name == "nobody" {
			continue
		}
		b.ReportMetric(median(cpus[name]), name+"-cpu")
		b.ReportMetric(median(rates[name]), name+"-rate")
		b.ReportMetric(median(allocs[name]), name+"-allocs")
	}
}
