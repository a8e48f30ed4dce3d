package toolkit

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin" // registers weighted_round_robin
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // registers outlier_detection_experimental

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/keepalive"
	"github.com/quorate/quorate/lab/link"
)

// backend is a server that a scenario slows down, lets fail or freezes.
type backend struct {
	pb.UnimplementedTestServiceServer
	server *grpc.Server
	health *health.Server
	link   *link.Link // nil unless a backend freezes
	addr   string

	takes atomic.Int64 // nanoseconds for each call
	fails atomic.Bool
	calls atomic.Int64 // and streams that have begun
}

// start starts a backend for a scenario.
func start(tb testing.TB, s scenario) *backend {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	b := &backend{addr: lis.Addr().String(), health: health.NewServer()}
	b.takes.Store(int64(s.takes))
	b.server = grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if s.denies && strings.HasPrefix(info.FullMethod, "/grpc.health.v1.") {
			return nil, status.Error(codes.Unauthenticated, "no token")
		}
		return handle(ctx, in)
	}))
	pb.RegisterTestServiceServer(b.server, b)
	grpc_health_v1.RegisterHealthServer(b.server, b.health)
	if s.freezes {
		b.link, err = link.Listen(b.addr)
		require.NoError(tb, err)
		b.addr = b.link.Addr()
	}
	go b.server.Serve(lis)
	return b
}

func (b *backend) stop() {
	b.health.Shutdown()
	if b.link != nil {
		b.link.Close()
	}
	b.server.Stop()
}

// EmptyCall takes as long as the scenario says.
func (b *backend) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	b.calls.Add(1)
	if b.fails.Load() {
		return nil, status.Error(codes.Unavailable, "this backend fails")
	}
	time.Sleep(time.Duration(b.takes.Load()))
	return &pb.Empty{}, nil
}

// StreamingOutputCall sends the address of the backend, ten times a second until the stream ends.
func (b *backend) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	b.calls.Add(1)
	message := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(b.addr)}}
	for {
		if err := stream.Send(message); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

const (
	service = "grpc.testing.TestService"
	// healthCheck makes a policy follow the health service of its backends.
	healthCheck = `"healthCheckConfig": {"serviceName": ""}`
	// retries is how gRPC repeats calls, as package keepalive has it.
	retries = `"methodConfig": [{"name": [{"service": "` + service + `"}], "waitForReady": true, "retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]}}]`
	outlierDetection = `{"interval": "1s", "baseEjectionTime": "10s", "maxEjectionPercent": 50, "childPolicy": [{"round_robin": {}}],
		"failurePercentageEjection": {"threshold": 50, "minimumHosts": 3, "requestVolume": 5, "enforcementPercentage": 100}}`
)

// policy is a load-balancing policy, by its name.
type policy struct{ name, config string }

var policies = []policy{
	{"quorate_p2c", ""},
	{"quorate_round_robin", ""},
	{"round_robin", `{"round_robin": {}}`},
	{"weighted_round_robin", `{"weighted_round_robin": {}}`},
	{"outlier_detection", `{"outlier_detection_experimental": ` + outlierDetection + `}`},
	{"pick_first", `{"pick_first": {}}`},
}

// dialOptions returns the options of a channel for a scenario, with all that the policy's library offers for it.
func (p policy) dialOptions(s scenario, list resolver.Builder) ([]grpc.DialOption, error) {
	if p.config == "" {
		channel := quorate.Channel{TransportCredentials: insecure.NewCredentials(), Policy: p.name, Resolvers: []resolver.Builder{list}}
		if s.repeatable {
			channel.Calls = keepalive.Calls{Repeatable: []string{"/" + service + "/"}}
		}
		if s.healthChecked {
			channel.Calls.Base = "{" + healthCheck + "}"
		}
		return channel.DialOptions()
	}
	config := []string{fmt.Sprintf(`"loadBalancingConfig": [%s]`, p.config)}
	if s.repeatable {
		config = append(config, retries)
	}
	if s.healthChecked {
		config = append(config, healthCheck)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(list),
		grpc.WithDefaultServiceConfig("{" + strings.Join(config, ",") + "}"),
	}, nil
}
