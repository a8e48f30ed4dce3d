package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/link"
)

const metricsText = `# TYPE grpc_server_started_total counter
grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
grpc_server_started_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 2
# TYPE grpc_server_msg_received_total counter
grpc_server_msg_received_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
grpc_server_msg_received_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 3
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.25
`

func TestParseMetrics(t *testing.T) {
	r, err := parseMetrics(strings.NewReader(metricsText))
	require.NoError(t, err)
	assert.Equal(t, reading{rpcs: map[string]float64{"KV/Range": 7, "Watch/Watch": 2}, messages: 3, cpu: 1.25}, r)
	assert.InDelta(t, 9, r.total(), 0)
	_, err = parseMetrics(strings.NewReader("process_cpu_seconds_total 1\n"))
	require.EqualError(t, err, "metrics: grpc_server_started_total is missing")
}

// TestMeterCountsOverARestart makes calls before and after a restart.
func TestMeterCountsOverARestart(t *testing.T) {
	ctx := t.Context()
	cluster, err := lab.Start(ctx, lab.Config{Members: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	member := cluster.Members()[0]
	get := func(n int) {
		for range n {
			_, err := pb.NewKVClient(member.Conn()).Range(ctx, &pb.RangeRequest{Key: []byte("key")})
			require.NoError(t, err)
		}
	}
	get(3)
	m, err := startMeter(ctx, cluster.Members())
	require.NoError(t, err)
	get(20)
	require.NoError(t, m.retire(ctx, member))
	require.NoError(t, member.Kill())
	require.NoError(t, member.Restart(ctx))
	get(30)
	r, err := m.stop(ctx, cluster.Members())
	require.NoError(t, err)
	assert.InDelta(t, 50, r.rpcs["KV/Range"], 0)
	assert.Positive(t, r.cpu)
}

func TestCountConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	up, err := link.Listen(listener.Addr().String())
	require.NoError(t, err)
	defer up.Close()
	down, err := link.Listen("")
	require.NoError(t, err)
	defer down.Close()

	counter := countConnections([]*link.Link{up, down})
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
	got := counter.stop()
	assert.InDelta(t, 3, got.opened, 0)
	assert.InDelta(t, 3, got.refused, 0)
	assert.Positive(t, got.peak)
	assert.LessOrEqual(t, got.peak, 3.0)
}

// TestPeakWithoutRefused: connections that are counted before they are refused, and a
// late reading.
func TestPeakWithoutRefused(t *testing.T) {
	at := func(readings ...float64) (counts []connections, times []time.Time) {
		for i, opened := range readings {
			counts = append(counts, connections{opened: opened})
			times = append(times, time.Unix(0, 0).Add(time.Duration(i)*connectionInterval))
		}
		return counts, times
	}
	assert.InDelta(t, 4, peak(at(0, 30, 1, 5, 25, 6)), 0)
	counts, times := at(0, 8)
	times[1] = times[1].Add(3 * connectionInterval)
	assert.InDelta(t, 2, peak(counts, times), 1e-9)
}
