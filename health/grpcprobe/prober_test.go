package grpcprobe_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/health/grpcprobe"
	"github.com/quorate/quorate/internal/grpctest"
)

// serve runs a gRPC server with a health service, and returns a connection to it.
func serve(t *testing.T, service healthpb.HealthServer) *grpc.ClientConn {
	t.Helper()
	address := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, service) }).String()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func probe(ctx context.Context, p grpcprobe.Prober, conn grpc.ClientConnInterface) []health.Report {
	var reports []health.Report
	p.Probe(ctx, conn, func(r health.Report) { reports = append(reports, r) })
	return reports
}

func TestProbeReportsHealthServiceStatus(t *testing.T) {
	server := grpchealth.NewServer()
	conn := serve(t, server)
	tests := []struct {
		name, service string
		status        healthpb.HealthCheckResponse_ServingStatus
		want          health.Kind
		err           string
	}{
		{"serving", "", healthpb.HealthCheckResponse_SERVING, health.Served, ""},
		{"not serving", "", healthpb.HealthCheckResponse_NOT_SERVING, health.Refusing, ""},
		{"unknown", "", healthpb.HealthCheckResponse_UNKNOWN, health.Refusing, `the health of service "" is UNKNOWN`},
		{"a service", "shop", healthpb.HealthCheckResponse_SERVING, health.Served, ""},
		{"a service that does not serve", "shop", healthpb.HealthCheckResponse_NOT_SERVING, health.Refusing, ""},
		{
			"a service that is unknown", "shop", healthpb.HealthCheckResponse_SERVICE_UNKNOWN, health.Refusing,
			`the health of service "shop" is SERVICE_UNKNOWN`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server.SetServingStatus(tt.service, tt.status)
			reports := probe(t.Context(), grpcprobe.Prober{Service: tt.service}, conn)
			require.Len(t, reports, 1)
			assert.Equal(t, tt.want, reports[0].Kind)
			assert.Nil(t, reports[0].Info)
			if tt.err == "" {
				assert.NoError(t, reports[0].Err)
			} else {
				assert.EqualError(t, reports[0].Err, tt.err)
			}
		})
	}
	t.Run("a service that was never registered", func(t *testing.T) {
		reports := probe(t.Context(), grpcprobe.Prober{Service: "nowhere"}, conn)
		require.Len(t, reports, 1)
		assert.Equal(t, health.Refusing, reports[0].Kind)
		assert.ErrorContains(t, reports[0].Err, `the server has no service "nowhere"`)
		assert.Equal(t, codes.NotFound, status.Code(reports[0].Err))
	})
}

// failing is a health service that answers with an error.
type failing struct {
	healthpb.UnimplementedHealthServer
	err error
}

func (s failing) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return nil, s.err
}

// Servers without a health service, or whose health service demands authentication, serve. Other errors of
// a server are answers. Errors of a broken connection, or of a context that ended, are not reported.
func TestErrorsOfTheHealthService(t *testing.T) {
	for code, want := range map[codes.Code][]health.Kind{
		codes.Unimplemented: {health.Served}, codes.PermissionDenied: {health.Served}, codes.Unauthenticated: {health.Served},
		codes.NotFound:          {health.Served}, // some servers know their services by name, and not ""
		codes.ResourceExhausted: {health.Answered}, codes.Unknown: {health.Answered},
		codes.Unavailable: {}, codes.Internal: {}, codes.Canceled: {}, codes.DeadlineExceeded: {},
	} {
		t.Run(code.String(), func(t *testing.T) {
			reports := probe(t.Context(), grpcprobe.Prober{}, serve(t, failing{err: status.Error(code, "no")}))
			require.Len(t, reports, len(want))
			for i, r := range reports {
				assert.Equal(t, want[i], r.Kind)
				assert.Equal(t, r.Kind == health.Answered, status.Code(r.Err) == code, "only Answered has the error")
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
