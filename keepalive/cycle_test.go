package keepalive_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	_ "github.com/quorate/quorate/balancer/policies"
	"github.com/quorate/quorate/keepalive"
)

// slow answers after a time from least to most, at random, and counts.
func slow(least, most time.Duration, served *atomic.Int64) service {
	return service{empty: func(ctx context.Context) error {
		served.Add(1)
		select {
		case <-time.After(least + rand.N(most-least+1)):
			return nil
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}}
}

// load makes calls one after the other from each of several callers, and counts them by their code.
func load(ctx context.Context, callers int, call func(context.Context) error) (count map[codes.Code]int, first error) {
	count = make(map[codes.Code]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := call(context.WithoutCancel(ctx)) // what has begun is finished
				mu.Lock()
				count[status.Code(err)]++
				first = cmp.Or(first, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return count, first
}

func emptyCall(conn *grpc.ClientConn) func(context.Context) error {
	client := testgrpc.NewTestServiceClient(conn)
	return func(ctx context.Context) error {
		_, err := client.EmptyCall(ctx, &testgrpc.Empty{})
		return err
	}
}

// TestSimulatedCyclesFailNoCall lets two servers end every connection after a
// second, or after an idle one, for half a minute of virtual time. Nothing but
// the pair's options is configured, so nothing repeats calls but gRPC's own
// transparent retry.
func TestSimulatedCyclesFailNoCall(t *testing.T) {
	const takes = 300 * time.Millisecond
	settings := map[string]keepalive.Server{
		"age":           {MaxConnectionAge: time.Second},
		"age and grace": {MaxConnectionAge: time.Second, MaxConnectionAgeGrace: 2 * time.Second},
		"idle":          {MaxConnectionIdle: time.Second},
	}
	for name, server := range settings {
		for _, policy := range []string{"pick_first", "quorate_round_robin"} {
			t.Run(name+"/"+policy, func(t *testing.T) {
				pair := keepalive.Pair{Server: server, LongestCall: takes}
				synctest.Test(t, func(t *testing.T) { cycle(t, pair, policy, 20*time.Millisecond, takes) })
			})
		}
	}
}

func cycle(t *testing.T, pair keepalive.Pair, policy string, latency, takes time.Duration) {
	dial, server := options(t, pair)
	nets := map[string]*pipeNet{"a": newPipeNet(latency), "b": newPipeNet(latency)}
	var served atomic.Int64
	for _, p := range nets {
		p.startServer(t, slow(0, takes, &served), server...)
	}
	r := manual.NewBuilderWithScheme("two")
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
		{Addresses: []resolver.Address{{Addr: "a"}}}, {Addresses: []resolver.Address{{Addr: "b"}}},
	}})
	conn, err := grpc.NewClient("two:///", append(dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(r),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return nets[addr].dial(ctx, addr) }),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+policy+`": {}}]}`))...)
	require.NoError(t, err)
	defer conn.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	callers, call := 8, emptyCall(conn)
	if pair.Server.MaxConnectionIdle > 0 {
		// One caller that pauses for about as long as connections may be idle.
		callers = 1
		busy := call
		call = func(ctx context.Context) error {
			time.Sleep(pair.Server.MaxConnectionIdle + rand.N(4*latency+1) - 2*latency)
			return busy(ctx)
		}
	}
	count, err := load(ctx, callers, call)
	assert.NoError(t, err)
	assert.Equal(t, map[codes.Code]int{codes.OK: count[codes.OK]}, count)
	assert.Equal(t, int64(count[codes.OK]), served.Load(), "each was executed once")
	assert.Greater(t, nets["a"].dials.Load()+nets["b"].dials.Load(), int64(5), "connections did cycle")
}

// TestSimulatedGraceCutsWhatTakesLonger shows what the check of LongestCall prevents: a call is
// cut that begins shortly before its connection is too old.
func TestSimulatedGraceCutsWhatTakesLonger(t *testing.T) {
	const takes = 10 * time.Second
	for grace, want := range map[time.Duration]codes.Code{
		takes - time.Second: codes.Unavailable,
		takes + time.Second: codes.OK,
	} {
		pair := keepalive.Pair{
			Server:      keepalive.Server{MaxConnectionAge: time.Minute, MaxConnectionAgeGrace: grace},
			LongestCall: takes,
		}
		assert.Equal(t, want == codes.OK, pair.Validate() == nil, "%v", grace)

		synctest.Test(t, func(t *testing.T) {
			p := newPipeNet(0)
			dial, server := rawOptions(pair)
			var served atomic.Int64
			conn := p.serve(t, slow(takes, takes, &served), dial, server)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			call := emptyCall(conn)
			count, _ := load(ctx, 16, func(ctx context.Context) error {
				time.Sleep(rand.N(time.Second))
				return call(ctx)
			})
			assert.Equal(t, want == codes.Unavailable, count[codes.Unavailable] > 0, "%v: %v", grace, count)
			assert.Len(t, count, map[codes.Code]int{codes.OK: 1, codes.Unavailable: 2}[want])
		})
	}
}
