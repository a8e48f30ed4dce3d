package integration_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats/opentelemetry"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/observe"
)

// picks counts the events of an observer.
type picks struct {
	observe.None
	n atomic.Int64
}

func (p *picks) Picked(observe.Pick) { p.n.Add(1) }

// gRPC's metrics of calls and of connections count those of a Channel, beside its observer.
func TestMetricsOfGRPC(t *testing.T) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	observer := new(picks)
	options, err := quorate.Channel{
		TransportCredentials: insecure.NewCredentials(), Observer: observer,
		Calls: keepalive.Calls{Repeatable: []string{"/grpc.health.v1.Health/"}},
	}.DialOptions()
	require.NoError(t, err)
	metrics := opentelemetry.DefaultMetrics().Add("grpc.subchannel.open_connections", "grpc.subchannel.connection_attempts_succeeded")
	conn, err := grpc.NewClient("passthrough:///"+grpctest.ServeHealth(t), append(options,
		opentelemetry.DialOption(opentelemetry.Options{MetricsOptions: opentelemetry.MetricsOptions{MeterProvider: provider, Metrics: metrics}}))...)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for range 3 {
		_, err = grpctest.Ask(t.Context(), conn)
		require.NoError(t, err)
	}

	ctx, counts := labtest.Context(t), map[string]uint64{}
	for counts["grpc.subchannel.open_connections"] == 0 { // gRPC counts a connection after it is used
		require.NoError(t, pause.For(ctx, time.Millisecond))
		var data metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &data))
		for _, scope := range data.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch d := m.Data.(type) {
				case metricdata.Histogram[float64]:
					counts[m.Name] = d.DataPoints[0].Count
				case metricdata.Sum[int64]:
					counts[m.Name] = uint64(d.DataPoints[0].Value)
				}
			}
		}
	}
	require.EqualValues(t, 3, counts["grpc.client.call.duration"])
	require.EqualValues(t, 3, counts["grpc.client.attempt.duration"])
	require.EqualValues(t, 3, counts["grpc.client.attempt.started"])
	require.EqualValues(t, 1, counts["grpc.subchannel.connection_attempts_succeeded"])
	require.EqualValues(t, 1, counts["grpc.subchannel.open_connections"])
	require.EqualValues(t, 3, observer.n.Load())
}
