package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/internal/labtest"
	"github.com/quorate/quorate/lab/internal/scrape"
	"github.com/quorate/quorate/lab/link"
)

const metricsText = `# TYPE grpc_server_started_total counter
grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
grpc_server_started_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 2
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.25
`

func TestReading(t *testing.T) {
	metrics, err := scrape.Parse(strings.NewReader(metricsText))
	require.NoError(t, err)
	r, err := readingOf(metrics)
	require.NoError(t, err)
	assert.Equal(t, reading{rpcs: 9, cpu: 1.25}, r)
	delete(metrics, "grpc_server_started_total")
	_, err = readingOf(metrics)
	require.EqualError(t, err, "metrics: grpc_server_started_total is missing")
}

// TestCountedSince makes calls before and after the first reading.
func TestCountedSince(t *testing.T) {
	ctx := t.Context()
	cluster := labtest.Start(t, lab.Config{Members: 1})
	get := func(n int) {
		for range n {
			_, err := pb.NewKVClient(cluster.Members()[0].Conn()).Range(ctx, &pb.RangeRequest{Key: []byte("key")})
			require.NoError(t, err)
		}
	}
	const earlier = 100
	get(earlier)
	before, err := readLive(ctx, cluster.Members())
	require.NoError(t, err)
	gets, r := 0.0, reading{}
	for r.cpu == 0 { // the kernel counts in hundredths of a second
		get(20)
		gets += 20
		r, err = countedSince(ctx, cluster.Members(), before)
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, r.rpcs, gets)
	assert.Less(t, r.rpcs, gets+earlier, "without those before; there are few of another kind")
}

func TestReached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	up, err := link.Listen(listener.Addr().String())
	require.NoError(t, err)
	defer up.Close()
	down, err := link.Listen("")
	require.NoError(t, err)
	defer down.Close()

	for range 3 {
		reached, err := net.Dial("tcp", up.Addr())
		require.NoError(t, err)
		defer reached.Close()
		if refused, err := net.Dial("tcp", down.Addr()); err == nil { // the reset may come while it dials
			defer refused.Close()
		}
	}
	require.Eventually(t, func() bool {
		return up.Stats().Accepted == 3 && down.Stats().Refused == 3
	}, 20*time.Second, time.Millisecond)
	assert.InDelta(t, 3, reached([]*link.Link{up, down}), 0)
}

func TestSeries(t *testing.T) {
	start := time.Now()
	var s series
	for i, v := range []float64{5, 5, 6, 30, 31, 32} {
		s.at, s.values = append(s.at, start.Add(time.Duration(i)*500*time.Millisecond)), append(s.values, v)
	}
	assert.InDelta(t, 27, s.total(), 0)
	assert.InDelta(t, 25, s.busiest(), 0)

	// Members that do not answer for two seconds have not received all in the last.
	late := series{at: []time.Time{start, start.Add(2 * time.Second)}, values: []float64{0, 20}}
	assert.InDelta(t, 10, late.busiest(), 0)
}

func TestFollow(t *testing.T) {
	n := 0.0
	s := follow(t.Context(), 0, countEvery, func(context.Context) (float64, error) {
		n++
		return n, nil
	})
	s.stop()
	s.stop()
	assert.InDelta(t, n, s.total(), 0)
}
