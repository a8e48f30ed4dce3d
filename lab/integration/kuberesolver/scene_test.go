//go:build experiment

package kuberesolver_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/resolver/kubernetes"
)

const (
	// service and portName are what the clients of a scene ask for.
	service  = "users"
	portName = "grpc"
	// port is the pods' port of that name.
	port = 8080
)

// scene is what a case happens in: a namespace of an API server, and a client there.
type scene struct {
	*apiServer
	namespace string
	config    *rest.Config
}

func newScene(t *testing.T, server *apiServer, namespace string) *scene {
	t.Helper()
	return &scene{apiServer: server, namespace: namespace, config: server.admit(t, namespace)}
}

// target is the service's.
func (s *scene) target() string {
	return fmt.Sprintf("kubernetes:///%s.%s:%s", service, s.namespace, portName)
}

// builder returns the resolver's builder, with a configuration that may be changed before.
func (s *scene) builder(t *testing.T, change ...func(*kubernetes.Config)) resolver.Builder {
	t.Helper()
	config := kubernetes.Config{REST: s.config}
	for _, c := range change {
		c(&config)
	}
	b, err := kubernetes.NewBuilder(config)
	require.NoError(t, err)
	return b
}

// watch resolves the service until the end of the test.
func (s *scene) watch(t *testing.T, change ...func(*kubernetes.Config)) *grpctest.Channel {
	t.Helper()
	return grpctest.Follow(t, s.builder(t, change...), s.target())
}

// set puts a slice.
func (s *scene) set(t *testing.T, slice *discoveryv1.EndpointSlice) {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(slice)
	require.NoError(t, err)
	s.apply(t, &unstructured.Unstructured{Object: fields})
}

// delete removes a slice.
func (s *scene) delete(t *testing.T, name string) {
	t.Helper()
	slices := s.resource(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), s.namespace)
	require.NoError(t, slices.Delete(within(t, testTimeout), name, metav1.DeleteOptions{}))
}

// slice returns a slice of the service with ready pods at these addresses.
func (s *scene) slice(name string, addresses ...string) *discoveryv1.EndpointSlice {
	number, text, ready := int32(port), portName, true
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &text, Port: &number}},
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, address := range addresses {
		if net.ParseIP(address).To4() == nil {
			slice.AddressType = discoveryv1.AddressTypeIPv6
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{address},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return slice
}

// pods returns n addresses of the network 10.net.0.0/16.
func pods(network, n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.%d.%d.%d", network, i/250, i%250+1)
	}
	return addresses
}

// at returns the endpoints that pods have, one for each, in one family.
func at(addresses ...string) []string {
	endpoints := make([]string, len(addresses))
	for i, address := range addresses {
		endpoints[i] = net.JoinHostPort(address, strconv.Itoa(port))
	}
	return endpoints
}

// requireAllowed fails if the resolver asked for anything but to watch, which the API server has refused then.
func requireAllowed(t *testing.T, w *grpctest.Channel) {
	t.Helper()
	_, errs := w.Received()
	for _, err := range errs {
		require.NotContains(t, err.Error(), "forbidden")
	}
}

// requireSizes fails if a list had another number of endpoints than these.
func requireSizes(t *testing.T, w *grpctest.Channel, sizes ...int) {
	t.Helper()
	updates, _ := w.Received()
	for i, u := range updates {
		require.Containsf(t, sizes, len(u.Endpoints), "size of list %d", i)
	}
}

// fleet is gRPC servers on this machine that pass for pods. An API server refuses
// loopback addresses, so that the clients' dialer knows where the pods are.
type fleet map[string]string // from a pod's host:port to the server's

// newFleet runs a server for every pod.
func newFleet(t *testing.T, addresses ...string) fleet {
	t.Helper()
	f := make(fleet, len(addresses))
	for _, pod := range at(addresses...) {
		f[pod] = grpctest.ServeHealth(t)
	}
	return f
}

func (f fleet) dial(ctx context.Context, pod string) (net.Conn, error) {
	address, known := f[pod]
	if !known {
		return nil, fmt.Errorf("%s is no pod", pod)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// connect returns a channel that balances over the pods that the resolver finds.
func (f fleet) connect(t *testing.T, b resolver.Builder, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithResolvers(b), grpc.WithContextDialer(f.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// mustCall makes one call that must succeed, and returns the address of the server that answered.
func mustCall(t *testing.T, conn *grpc.ClientConn, options ...grpc.CallOption) string {
	t.Helper()
	address, err := grpctest.Ask(within(t, testTimeout), conn, options...)
	require.NoError(t, err)
	return address
}

// callUntil makes calls, all of which must succeed, until one is answered by the server of a pod.
func (f fleet) callUntil(t *testing.T, conn *grpc.ClientConn, pod string) {
	t.Helper()
	for ctx := within(t, testTimeout); mustCall(t, conn) != f[pod]; {
		require.NoError(t, pause.For(ctx, pollInterval), "no call is answered by %s", pod)
	}
}

// calls is traffic that goes on beside a case.
type calls struct {
	cancel context.CancelFunc
	done   chan error
}

// keepCalling makes one call after the other until end, or until one fails.
func keepCalling(t *testing.T, conn *grpc.ClientConn) *calls {
	t.Helper()
	mustCall(t, conn)
	ctx, cancel := context.WithCancel(t.Context())
	c := &calls{cancel: cancel, done: make(chan error, 1)}
	go func() { c.done <- c.run(ctx, conn) }()
	t.Cleanup(cancel)
	return c
}

func (c *calls) run(ctx context.Context, conn *grpc.ClientConn) error {
	for made := 0; pause.For(ctx, pollInterval) == nil; made++ {
		limited, cancel := context.WithTimeout(ctx, testTimeout)
		_, err := grpctest.Ask(limited, conn)
		cancel()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("after %d calls: %w", made, err)
		}
	}
	return nil
}

// end returns the error of the first call that failed.
func (c *calls) end() error {
	c.cancel()
	return <-c.done
}
