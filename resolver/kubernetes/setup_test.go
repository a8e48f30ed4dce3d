package kubernetes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

// testTimeout bounds waiting for an event that must happen.
const testTimeout = 5 * time.Minute

func startServer(t *testing.T, slices ...*discoveryv1.EndpointSlice) *fakeapiserver.Server {
	t.Helper()
	server, err := fakeapiserver.Start()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	create(t, server, slices...)
	return server
}

// quick returns short timings for tests: unused connections are closed soon, and a machine that stalls for seconds does
// not make the API server look unresponsive.
func quick() timing {
	t := defaultTiming()
	t.answer, t.listed = 20*time.Second, 20*time.Second
	t.ping, t.pong = 5*time.Second, 20*time.Second
	t.idle = 300 * time.Millisecond
	return t
}

// noEnvironment returns an environment with neither a pod nor a kubeconfig.
func noEnvironment(t *testing.T) podEnvironment {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	env := currentEnvironment()
	env.inCluster = func() (*rest.Config, error) { return nil, rest.ErrNotInCluster }
	env.namespaceFile = t.TempDir() + "/none"
	return env
}

func newTestBuilder(t *testing.T, cfg Config, tm timing) *builder {
	t.Helper()
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = 300 * time.Millisecond
	}
	if cfg.MassRemovalDelay == 0 {
		cfg.MassRemovalDelay = -1
	}
	b, err := newBuilder(cfg, noEnvironment(t), tm)
	require.NoError(t, err)
	return b
}

// open returns a channel to a target, below a builder of its own.
func open(t *testing.T, server *fakeapiserver.Server, text string) *grpctest.Channel {
	t.Helper()
	return openWith(t, Config{REST: server.RESTConfig()}, quick(), text)
}

func openWith(t *testing.T, cfg Config, tm timing, text string) *grpctest.Channel {
	t.Helper()
	return grpctest.Follow(t, newTestBuilder(t, cfg, tm), text)
}

// slice returns an EndpointSlice of a service with one port and ready endpoints.
func slice(service, name string, port int32, hosts ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("grpc"), Port: &port}},
	}
	for _, host := range hosts {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{host},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}

func create(t *testing.T, server *fakeapiserver.Server, slices ...*discoveryv1.EndpointSlice) {
	t.Helper()
	for _, s := range slices {
		_, err := server.Create(s)
		require.NoError(t, err)
	}
}

func update(t *testing.T, server *fakeapiserver.Server, s *discoveryv1.EndpointSlice) {
	t.Helper()
	_, err := server.Update(s)
	require.NoError(t, err)
}

const roundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`

func connect(t *testing.T, b resolver.Builder, text string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithResolvers(b), grpc.WithDefaultServiceConfig(roundRobin), grpc.WithNoProxy(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	}, opts...)
	conn, err := grpc.NewClient(text, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
