// Package grpcprobe probes gRPC servers with the standard health service, grpc.health.v1,
// for [health].
//
// For etcd members use etcdprobe: their health service returns NOT_SERVING only while they
// defragment their store, and only with the feature gate StopGRPCServiceOnDefrag. A member
// that has lost its leader is SERVING.
package grpcprobe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
)

// Prober probes gRPC servers. It is stateless and may be used concurrently.
type Prober struct {
	// Service is the name of the service to check. "", the default, means the whole
	// server.
	Service string
}

var _ health.Prober = Prober{}

// Probe calls Check and reports its result:
//
//	SERVING                     Served
//	NOT_SERVING                 Refusing
//	any other status            Refusing, with an error that names it
//	error NOT_FOUND             Refusing: the server does not know the Service; Served for "",
//	                            which a health service need not know
//	error UNIMPLEMENTED         Served: there is no health service, and gRPC takes such a
//	                            server for healthy (gRFC A17)
//	error UNAUTHENTICATED,      Served: the server does its work, and tells probes nothing
//	PERMISSION_DENIED           of its health
//	any other error of a server Answered
//
// It reports nothing if there is no response from the server, see [health.FromServer].
func (p Prober) Probe(ctx context.Context, conn grpc.ClientConnInterface, report func(health.Report)) {
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: p.Service})
	switch code := status.Code(err); {
	case code == codes.OK:
		report(p.reportOf(resp.GetStatus()))
	case code == codes.NotFound && p.Service != "":
		report(health.Report{Kind: health.Refusing, Err: fmt.Errorf("the server has no service %q: %w", p.Service, err)})
	case code == codes.NotFound, code == codes.Unimplemented, code == codes.Unauthenticated, code == codes.PermissionDenied:
		report(health.Report{Kind: health.Served})
	case health.FromServer(err):
		report(health.Report{Kind: health.Answered, Err: err})
	}
}

func (p Prober) reportOf(s healthpb.HealthCheckResponse_ServingStatus) health.Report {
	switch s {
	case healthpb.HealthCheckResponse_SERVING:
		return health.Report{Kind: health.Served}
	case healthpb.HealthCheckResponse_NOT_SERVING:
		return health.Report{Kind: health.Refusing}
	default:
		return health.Report{Kind: health.Refusing, Err: fmt.Errorf("the health of service %q is %v", p.Service, s)}
	}
}
