package fakeetcd

import (
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthService always serves, as etcd's does outside a defragmentation.
func healthService() map[string]service {
	return map[string]service{
		"Check": unary(open, func(*Call, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
		}),
		"Watch": streaming(open, func(c *Call) error {
			if err := c.send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}); err != nil {
				return err
			}
			<-c.Context().Done()
			return c.Context().Err()
		}),
	}
}
