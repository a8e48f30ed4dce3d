package keepalive_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

func presets() map[string]keepalive.Pair {
	return map[string]keepalive.Pair{
		"datacenter":    keepalive.Datacenter().Pair(),
		"load-balancer": keepalive.LoadBalancer().Pair(),
		"stock":         keepalive.Stock().Pair(),
		"etcd":          keepalive.Etcd().Pair(),
	}
}

// traffic makes calls and quiet streams at random, for about the given time.
func traffic(t *testing.T, client testgrpc.TestServiceClient, rhythm, total time.Duration, rnd *rand.Rand) {
	t.Helper()
	for end := time.Now().Add(total); time.Now().Before(end); {
		time.Sleep(time.Duration(rnd.Int64N(int64(2*rhythm) + 1)))
		switch rnd.IntN(3) {
		case 0:
			_, err := client.EmptyCall(t.Context(), &testgrpc.Empty{})
			require.NoError(t, err)
		case 1:
			ctx, cancel := context.WithCancel(t.Context())
			_, err := client.FullDuplexCall(ctx)
			require.NoError(t, err)
			time.Sleep(time.Duration(rnd.Int64N(int64(4*rhythm) + 1)))
			cancel()
		case 2:
			time.Sleep(4 * rhythm)
		}
	}
}

// TestVerdictsAreThoseOfGRPC compares Check with what a real client and a real server do
// in virtual time, for the presets and for random settings, on a network with random latency: a refused
// pair draws the GOAWAY that was predicted, an accepted one draws none whatever is sent.
func TestVerdictsAreThoseOfGRPC(t *testing.T) {
	pairs := presets()
	for seed := range uint64(150) {
		pairs[fmt.Sprint(seed)] = randomPair(rand.New(rand.NewPCG(seed, 7)))
	}
	refused, rnd := 0, rand.New(rand.NewPCG(1, 2))
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		pair, latency := pairs[name], time.Duration(rnd.IntN(3))*40*time.Millisecond
		var tooMany *keepalive.TooManyPingsError
		err := keepalive.Check(pair.Client, pair.Server)
		if err != nil {
			require.ErrorAs(t, err, &tooMany)
			refused++
		}
		grpctest.Bubble(t, name, func(t *testing.T) {
			t.Logf("%v; latency %v; %v", pair, latency, err)
			if tooMany == nil {
				requireNoGoAway(t, pair, latency)
			} else {
				requireGoAway(t, pair, latency, tooMany)
			}
		})
	}
	assert.Greater(t, refused, 30)
	assert.Greater(t, len(pairs)-refused, 30)
}

func randomPair(rnd *rand.Rand) keepalive.Pair {
	times := []time.Duration{10 * time.Second, 11 * time.Second, time.Minute, 5 * time.Minute, 5*time.Minute + time.Second, 2 * time.Hour, 3 * time.Hour}
	minTimes := append([]time.Duration{0, time.Second, 59 * time.Second}, times...)
	return keepalive.Pair{
		Client: keepalive.Client{
			Time:                times[rnd.IntN(len(times))],
			Timeout:             time.Duration(5+rnd.IntN(40)) * time.Second,
			PermitWithoutStream: rnd.IntN(2) == 0,
		},
		Server: keepalive.Server{
			MinTime:             minTimes[rnd.IntN(len(minTimes))],
			PermitWithoutStream: rnd.IntN(2) == 0,
			Time:                24 * time.Hour,
		},
	}
}

func requireNoGoAway(t *testing.T, pair keepalive.Pair, latency time.Duration) {
	t.Helper()
	dial, server := options(t, pair)
	p, conn := connected(t, latency, dial, server)
	time.Sleep(6 * pair.Client.Time)
	traffic(t, testgrpc.NewTestServiceClient(conn), pair.Client.Time, 60*pair.Client.Time, rand.New(rand.NewPCG(1, 2)))
	assert.Empty(t, p.tooManyPings())
	if pair.Server.MaxConnectionAge == 0 {
		assert.EqualValues(t, 1, p.dials.Load(), "one connection has lasted")
	}
}

func requireGoAway(t *testing.T, pair keepalive.Pair, latency time.Duration, predicted *keepalive.TooManyPingsError) {
	t.Helper()
	dial, server := rawOptions(pair)
	p, conn := connected(t, latency, dial, server)
	if predicted.Stream {
		_, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(t.Context())
		require.NoError(t, err)
	}
	begin := time.Now()
	time.Sleep(predicted.After + time.Minute)
	goAways := p.tooManyPings()
	require.Len(t, goAways, 1)
	// Each ping waits for the answer to the one before.
	assert.WithinRange(t, goAways[0], begin.Add(predicted.After-4*latency), begin.Add(predicted.After+20*latency))
}

// TestCallsCanceledAtOnce shows the gap that Check documents, and what closes it.
func TestCallsCanceledAtOnce(t *testing.T) {
	open, closed := keepalive.Etcd().Pair(), keepalive.Etcd().Pair()
	closed.Server.PermitWithoutStream = true
	assert.NotZero(t, goAwaysOfCanceledCalls(t, open))
	assert.Zero(t, goAwaysOfCanceledCalls(t, closed))
}

func goAwaysOfCanceledCalls(t *testing.T, pair keepalive.Pair) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dial, server := options(t, pair)
		p, conn := connected(t, 0, dial, server)
		for range 500 {
			time.Sleep(25 * time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(ctx)
			cancel()
			require.NoError(t, err)
		}
		n = len(p.tooManyPings())
	})
	return n
}

// TestSilentPeerIsNoticed holds presets to Client.Time + Client.Timeout, without a call
// if they may ping then, and else with one.
func TestSilentPeerIsNoticed(t *testing.T) {
	for name, pair := range presets() {
		grpctest.Bubble(t, name, func(t *testing.T) {
			dial, server := options(t, pair)
			p, conn := connected(t, time.Millisecond, dial, server)
			if !pair.Client.PermitWithoutStream {
				_, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(t.Context())
				require.NoError(t, err)
			}
			time.Sleep(3 * pair.Client.Time / 2)
			p.silent.Store(true)
			begin := time.Now()
			require.True(t, conn.WaitForStateChange(t.Context(), connectivity.Ready))
			assert.LessOrEqual(t, time.Since(begin), pair.Client.Time+pair.Client.Timeout)
		})
	}
}
