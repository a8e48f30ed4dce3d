package keepalive_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

func TestServiceConfig(t *testing.T) {
	config, err := keepalive.Calls{
		Repeatable: []string{"/shop.Catalog/", "shop.Orders/Get"},
		Once:       []string{"/shop.Orders/Place"},
		Timeout:    1500 * time.Millisecond,
		Base:       `{"loadBalancingConfig": [{"quorate_round_robin": {}}], "methodConfig": [{"name": [{"service": "shop.Stock"}], "timeout": "1s"}]}`,
	}.ServiceConfig()
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"loadBalancingConfig": [{"quorate_round_robin": {}}],
		"methodConfig": [{"name": [{"service": "shop.Stock"}], "timeout": "1s"}, {
			"name": [{"service": "shop.Catalog"}, {"service": "shop.Orders", "method": "Get"}],
			"waitForReady": true,
			"timeout": "1.5s",
			"retryPolicy": {
				"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 3,
				"retryableStatusCodes": ["UNAVAILABLE"]
			}
		}, {
			"name": [{"service": "shop.Orders", "method": "Place"}],
			"waitForReady": true,
			"timeout": "1.5s"
		}],
		"retryThrottling": {"maxTokens": 1000, "tokenRatio": 0.1}
	}`, config)

	config, err = keepalive.Calls{Repeatable: []string{"a.B/C"}, Base: `{"retryThrottling": {"maxTokens": 5, "tokenRatio": 1}}`}.ServiceConfig()
	require.NoError(t, err)
	assert.Contains(t, config, `"retryThrottling":{"maxTokens":5,"tokenRatio":1}`)

	config, err = keepalive.Calls{Once: []string{"shop.Orders/Place"}}.ServiceConfig()
	require.NoError(t, err)
	assert.JSONEq(t, `{"methodConfig": [{"name": [{"service": "shop.Orders", "method": "Place"}], "waitForReady": true, "timeout": "30s"}]}`, config)
}

func TestCallsThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		calls keepalive.Calls
		want  []string
	}{
		"nothing":     {want: []string{"no method is named"}},
		"no method":   {calls: keepalive.Calls{Repeatable: []string{"Get"}}, want: []string{`Calls.Repeatable[0]: "Get"; write "/pkg.Service/Method"`}},
		"no service":  {calls: keepalive.Calls{Once: []string{"//Get"}}, want: []string{`Calls.Once[0]: "//Get"`}},
		"empty":       {calls: keepalive.Calls{Once: []string{""}}, want: []string{`Calls.Once[0]: ""`}},
		"wildcard":    {calls: keepalive.Calls{Once: []string{"/shop.Orders/*"}}, want: []string{`"/shop.Orders/*"; write "/pkg.Service/Method"`}},
		"in both":     {calls: keepalive.Calls{Repeatable: []string{"/a.B/C"}, Once: []string{"a.B/C"}}, want: []string{`Calls.Once[0]: "a.B/C" is named already by Calls.Repeatable[0]`}},
		"several":     {calls: keepalive.Calls{Repeatable: []string{"x", "/a.B/C", "y"}}, want: []string{"Repeatable[0]", "Repeatable[2]"}},
		"timeout":     {calls: keepalive.Calls{Repeatable: []string{"/a.B/C"}, Timeout: -time.Second}, want: []string{"Calls.Timeout: -1s"}},
		"base":        {calls: keepalive.Calls{Once: []string{"/a.B/C"}, Base: "[]"}, want: []string{"Calls.Base is no service config"}},
		"null base":   {calls: keepalive.Calls{Once: []string{"/a.B/C"}, Base: "null"}, want: []string{"Calls.Base is no service config: it is null"}},
		"in the base": {calls: keepalive.Calls{Once: []string{"/a.B/C"}, Base: `{"methodConfig": [{"name": [{"service": "a.B", "method": "C"}]}]}`}, want: []string{`Calls.Base has a methodConfig for "/a.B/C" too`}},
		"max request": {calls: keepalive.Calls{Repeatable: []string{"/a.B/C"}, MaxRequest: 65 * mib}, want: []string{"Calls.MaxRequest: 68157440"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.calls.ServiceConfig()
			_, dialErr := tc.calls.DialOptions()
			for _, part := range tc.want {
				require.ErrorContains(t, err, part)
				require.ErrorContains(t, dialErr, part)
			}
		})
	}
}

func TestRepeatedOrNot(t *testing.T) {
	const empty, unary = testgrpc.TestService_EmptyCall_FullMethodName, testgrpc.TestService_UnaryCall_FullMethodName
	large := &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte(strings.Repeat("x", mib))}}
	for name, tc := range map[string]struct {
		calls    keepalive.Calls
		refusals int64
		want     codes.Code
		attempts int64
	}{
		"repeatable, with a large request":   {calls: keepalive.Calls{Repeatable: []string{unary}}, refusals: 4, want: codes.OK, attempts: 5},
		"repeatable, refused for good":       {calls: keepalive.Calls{Repeatable: []string{unary}}, refusals: 9, want: codes.Unavailable, attempts: 5},
		"repeatable, longer than MaxRequest": {calls: keepalive.Calls{Repeatable: []string{unary}, MaxRequest: kib}, refusals: 1, want: codes.Unavailable, attempts: 1},
		"repeatable, as long as MaxRequest":  {calls: keepalive.Calls{Repeatable: []string{unary}, MaxRequest: proto.Size(large)}, refusals: 1, want: codes.OK, attempts: 2},
		"once":                               {calls: keepalive.Calls{Once: []string{unary}}, refusals: 1, want: codes.Unavailable, attempts: 1},
		"once, in a repeatable service":      {calls: keepalive.Calls{Repeatable: []string{"/grpc.testing.TestService/"}, Once: []string{unary}}, refusals: 1, want: codes.Unavailable, attempts: 1},
		"another method is repeatable":       {calls: keepalive.Calls{Repeatable: []string{empty}}, refusals: 1, want: codes.Unavailable, attempts: 1},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			var attempts atomic.Int64
			dial, err := tc.calls.DialOptions()
			require.NoError(t, err)
			conn := newPipeNet(0).serve(t, service{unary: func(*testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
				if attempts.Add(1) <= tc.refusals {
					return nil, status.Error(codes.Unavailable, "not yet")
				}
				return &testgrpc.SimpleResponse{}, nil
			}}, dial, nil)
			_, err = testgrpc.NewTestServiceClient(conn).UnaryCall(t.Context(), large)
			assert.Equal(t, tc.want, status.Code(err), "%v", err)
			assert.Equal(t, tc.attempts, attempts.Load())
		})
	}
}

// TestBrokenConnection breaks the connection of a call, before and after the header of the answer has arrived.
func TestBrokenConnection(t *testing.T) {
	const empty = testgrpc.TestService_EmptyCall_FullMethodName
	for name, tc := range map[string]struct {
		calls    keepalive.Calls
		header   bool
		want     codes.Code
		attempts int64
	}{
		"repeatable":                     {calls: keepalive.Calls{Repeatable: []string{empty}}, want: codes.OK, attempts: 2},
		"repeatable, answered meanwhile": {calls: keepalive.Calls{Repeatable: []string{empty}}, header: true, want: codes.Unavailable, attempts: 1},
		"once":                           {calls: keepalive.Calls{Once: []string{empty}}, want: codes.Unavailable, attempts: 1},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			var attempts atomic.Int64
			answering := service{empty: func(ctx context.Context) error {
				if attempts.Add(1) > 1 {
					return nil
				}
				if tc.header {
					assert.NoError(t, grpc.SendHeader(ctx, nil))
				}
				<-ctx.Done()
				return ctx.Err()
			}}
			dial, err := tc.calls.DialOptions()
			require.NoError(t, err)
			p := newPipeNet(0)
			conns := make(chan net.Conn, 2)
			conn := p.serve(t, answering, append(dial, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := p.dial(ctx, addr)
				conns <- c
				return c, err
			})), nil)
			ended := make(chan error, 1)
			go func() {
				_, err := testgrpc.NewTestServiceClient(conn).EmptyCall(t.Context(), &testgrpc.Empty{})
				ended <- err
			}()
			synctest.Wait() // the server has the call
			require.NoError(t, (<-conns).Close())
			assert.Equal(t, tc.want, status.Code(<-ended))
			assert.Equal(t, tc.attempts, attempts.Load())
		})
	}
}

// TestNamedCallsWaitForAServer makes calls while no server can be reached: those that
// are named wait for it, but not for ever.
func TestNamedCallsWaitForAServer(t *testing.T) {
	for away, want := range map[time.Duration]codes.Code{20 * time.Second: codes.OK, time.Hour: codes.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			dial, err := keepalive.Calls{Once: []string{testgrpc.TestService_EmptyCall_FullMethodName}}.DialOptions()
			require.NoError(t, err)
			p := newPipeNet(0)
			client := testgrpc.NewTestServiceClient(p.serve(t, service{}, append(dial, refuseUntil(p, time.Now().Add(away))), nil))
			_, err = client.FullDuplexCall(t.Context())
			require.Equal(t, codes.Unavailable, status.Code(err), "not named")
			begin := time.Now()
			_, err = client.EmptyCall(t.Context(), &testgrpc.Empty{})
			assert.Equal(t, want, status.Code(err))
			if want == codes.OK {
				assert.LessOrEqual(t, time.Since(begin), 24*time.Second, "connected again within the delay of 3 s and its jitter")
			} else {
				assert.Equal(t, 30*time.Second, time.Since(begin))
			}
		})
	}
}

// refuseUntil makes connections fail until a time.
func refuseUntil(p *pipeNet, until time.Time) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		if time.Now().Before(until) {
			return nil, syscall.ECONNREFUSED
		}
		return p.dial(ctx, addr)
	})
}
