package keepalive_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/quorate/quorate/keepalive"
)

var idle = flag.Duration("idle", 0, "how long TestIdleOverTCP leaves real connections alone; at least 1m, which lets the pair that must fail do so (default: it is skipped)")

// TestIdleOverTCP is the same as TestPresetsLiveInPeace in real time, over real TCP. What
// virtual time shows is more by far, and TestIdleOnEtcd (lab/integration/keepalive) leaves
// real connections alone in CI; make keepalive-test runs this for three minutes.
func TestIdleOverTCP(t *testing.T) {
	if *idle == 0 {
		t.Skip("it waits for a minute at least: make keepalive-test")
	}
	require.GreaterOrEqual(t, *idle, time.Minute)
	var checks []func()
	for name, pair := range presets() {
		checks = append(checks, leaveAlone(t, name, pair))
	}
	checks = append(checks, offendOverTCP(t))
	time.Sleep(*idle)
	for _, check := range checks {
		check()
	}
}

// leaveAlone makes a connection without calls and one with a quiet stream. What it
// returns says whether they have lasted, and ends them.
func leaveAlone(t *testing.T, name string, pair keepalive.Pair) (check func()) {
	dial, server := options(t, pair)
	s := &tcpServer{service: quietService{}, options: server}
	s.start(t)
	quiet, quietDials := dialCounted(t, s.addr, dial)
	streaming, streamDials := dialCounted(t, s.addr, dial)
	connect(t, quiet)
	connect(t, streaming)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := testgrpc.NewTestServiceClient(streaming).FullDuplexCall(ctx)
	require.NoError(t, err)
	return func() {
		assert.Equal(t, connectivity.Ready, quiet.GetState(), name)
		cancel()
		_, err = stream.Recv()
		assert.ErrorContains(t, err, "context canceled", "%s: nothing else has ended the stream", name)
		assert.Equal(t, int64(1), quietDials.Load(), name)
		assert.Equal(t, int64(1), streamDials.Load(), name)
		s.stop(false)
	}
}

// offendOverTCP leaves a connection with the founding values alone. What it returns says
// when the server has ended it.
func offendOverTCP(t *testing.T) (check func()) {
	var foretold *keepalive.TooManyPingsError
	require.ErrorAs(t, founding.Validate(), &foretold)
	dial, server := rawOptions(founding)
	s := &tcpServer{service: quietService{}, options: server}
	s.start(t)
	conn, _ := dialCounted(t, s.addr, dial)
	connect(t, conn)
	begin, lasted := time.Now(), make(chan time.Duration, 1)
	go func() {
		conn.WaitForStateChange(t.Context(), connectivity.Ready)
		lasted <- time.Since(begin)
	}()
	return func() {
		select {
		case d := <-lasted:
			t.Logf("foretold for %v, came after %v", foretold.After, d)
			assert.GreaterOrEqual(t, d, foretold.After-time.Second)
		case <-time.After(patience):
			t.Error("the founding values have drawn no GOAWAY")
		}
		s.stop(false)
	}
}

// dialCounted returns a channel over plain TCP that counts its connections.
func dialCounted(t *testing.T, addr string, options []grpc.DialOption) (*grpc.ClientConn, *atomic.Int64) {
	t.Helper()
	dials := new(atomic.Int64)
	return dialTCP(t, addr, append(options, grpc.WithIdleTimeout(0), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		dials.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		if _, plain := conn.(*net.TCPConn); !plain {
			return nil, errors.New("not the kind of connection on which grpc-go sets TCP_USER_TIMEOUT")
		}
		return conn, nil
	}))...), dials
}
