package fakeetcd

import (
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService always reports SERVING, like etcd outside a defragmentation. It
// knows only the empty service name, the server as a whole.
var healthService = map[string]service{
	"Check": unary(open, func(_ *Call, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
		if r.Service != "" {
			return nil, status.Error(codes.NotFound, "unknown service")
		}
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}),
}
