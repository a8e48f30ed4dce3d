package quorate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/keepalive"
)

// emptyCallConfig is a service config with fields, and a method config of EmptyCall with fields of its own.
func emptyCallConfig(method, fields string) string {
	return `{"methodConfig": [{"name": [{"service": "grpc.testing.TestService", "method": "EmptyCall"}], ` + method + `}]` + fields + `}`
}

const retries = `"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED"]}`

// TestServiceConfigsOfGRPC shows each setting of a service config at work in a Channel, and, of a round_robin,
// that gRPC does the same.
func TestServiceConfigsOfGRPC(t *testing.T) {
	for name, tc := range map[string]struct {
		base  string
		fault func(*backend) // of all backends
		call  func(testgrpc.TestServiceClient) func(context.Context) error
		times int // 0 for once
		want  codes.Code
		calls int64         // that the backends receive
		took  time.Duration // at least
	}{
		"nothing":                 {base: `{}`, fault: fails, call: reads, want: codes.Aborted, calls: 1},
		"retryPolicy":             {base: emptyCallConfig(retries, ""), fault: fails, call: reads, want: codes.Aborted, calls: 4},
		"retryThrottling":         {base: emptyCallConfig(retries, `, "retryThrottling": {"maxTokens": 4, "tokenRatio": 0.1}`), fault: fails, call: reads, times: 20, want: codes.Aborted, calls: 21},
		"timeout":                 {base: emptyCallConfig(`"timeout": "0.5s"`, ""), fault: pauses, call: reads, want: codes.DeadlineExceeded, calls: 1, took: 500 * time.Millisecond},
		"waitForReady":            {base: emptyCallConfig(`"waitForReady": true`, ""), fault: unreachable, call: reads, want: codes.OK, calls: 1, took: 3 * time.Second},
		"not waitForReady":        {base: `{}`, fault: unreachable, call: reads, want: codes.Unavailable},
		"maxRequestMessageBytes":  {base: `{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": 50}]}`, call: writes, want: codes.ResourceExhausted},
		"maxResponseMessageBytes": {base: `{"methodConfig": [{"name": [{}], "maxResponseMessageBytes": 50}]}`, call: writes, want: codes.ResourceExhausted, calls: 1},
		"healthCheckConfig":       {base: `{"healthCheckConfig": {"serviceName": "shop"}}`, fault: leaves, call: reads, want: codes.Unavailable},
	} {
		for _, policy := range []string{"round_robin", "quorate"} {
			grpctest.Bubble(t, name+" "+policy, func(t *testing.T) {
				backends, client, stop := serve(t, dialWith(t, policy, keepalive.Calls{Base: tc.base}))
				defer stop()
				for _, b := range backends {
					if tc.fault != nil {
						tc.fault(b)
					}
				}
				began := time.Now()
				var err error
				for range max(1, tc.times) {
					err = tc.call(client)(t.Context())
				}
				assert.Equal(t, tc.want, status.Code(err))
				assert.Equal(t, tc.calls, callsOf(backends))
				assert.GreaterOrEqual(t, time.Since(began), tc.took)
			})
		}
	}
}

// dialWith returns a function that makes a channel with gRPC's round_robin or ours.
func dialWith(t *testing.T, policy string, calls keepalive.Calls) func(string, resolver.Builder, grpc.DialOption) (closer, error) {
	if policy != "round_robin" {
		return over(t, quorate.Channel{Calls: calls})
	}
	config := strings.Replace(calls.Base, "{", `{"loadBalancingConfig": [{"round_robin": {}}], `, 1)
	if calls.Base == "{}" {
		config = `{"loadBalancingConfig": [{"round_robin": {}}]}`
	}
	return func(target string, names resolver.Builder, dialer grpc.DialOption) (closer, error) {
		return grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(names),
			grpc.WithDefaultServiceConfig(config), dialer)
	}
}

func fails(b *backend)       { b.code.Store(int32(codes.Aborted)) }
func pauses(b *backend)      { b.pause.Store(int64(time.Minute)) }
func leaves(b *backend)      { b.health.SetServingStatus("shop", healthpb.HealthCheckResponse_NOT_SERVING) }
func unreachable(b *backend) { b.unreachableUntil.Store(new(time.Now().Add(3 * time.Second))) }

// A stream goes on if its endpoint returns to the list within DrainTimeout, and ends then if it does not.
func TestStreamsOutlastAListThatFlaps(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, absent, ends time.Duration
	}{
		"it returns":                   {absent: time.Second},
		"it does not":                  {absent: time.Hour, ends: 30 * time.Second},
		"it does not, with a timeout":  {timeout: 90 * time.Second, absent: time.Hour, ends: 90 * time.Second},
		"it returns within the longer": {timeout: 90 * time.Second, absent: time.Minute},
	} {
		grpctest.Bubble(t, name, func(t *testing.T) {
			list, all := manual.NewBuilderWithScheme("static"), resolver.State{}
			_, client, stop := serve(t, func(target string, _ resolver.Builder, dialer grpc.DialOption) (closer, error) {
				all = listOf(strings.Split(strings.TrimPrefix(target, "static:///"), ",")...)
				list.InitialState(all)
				return over(t, quorate.Channel{Policy: "quorate_round_robin", DrainTimeout: tc.timeout})(target, list, dialer)
			})
			defer stop()
			for range 10 {
				_, err := client.EmptyCall(t.Context(), &testgrpc.Empty{})
				require.NoError(t, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began, ended := time.Now(), make(chan time.Duration, 12)
			for range 12 {
				stream, err := client.FullDuplexCall(ctx)
				require.NoError(t, err)
				go func() {
					_, err := stream.Recv()
					assert.Error(t, err)
					ended <- time.Since(began)
				}()
			}
			synctest.Wait()
			list.UpdateState(resolver.State{Endpoints: all.Endpoints[:1:1]})
			time.Sleep(tc.absent)
			list.UpdateState(all)
			time.Sleep(10 * time.Minute)
			if tc.ends == 0 {
				assert.Empty(t, ended)
			} else {
				assert.Len(t, ended, 8)
			}
			for range len(ended) {
				assert.InDelta(t, tc.ends, <-ended, float64(10*time.Millisecond))
			}
			cancel()
			synctest.Wait()
		})
	}
}
