package kubernetes

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
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
const testTimeout = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

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
	s := currentEnvironment()
	s.inCluster = func() (*rest.Config, error) { return nil, rest.ErrNotInCluster }
	s.namespaceFile = t.TempDir() + "/none"
	return s
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

func target(t *testing.T, text string) resolver.Target {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return resolver.Target{URL: *u}
}

// channel is a resolver.ClientConn that records its calls.
type channel struct {
	resolver.ClientConn

	mu      sync.Mutex
	states  []resolver.State
	errs    []error
	updated chan struct{} // closed and replaced with each
	refuse  func(resolver.State) error
}

func newChannel() *channel { return &channel{updated: make(chan struct{})} }

func (c *channel) note(add func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add()
	close(c.updated)
	c.updated = make(chan struct{})
}

func (c *channel) UpdateState(s resolver.State) error {
	c.note(func() { c.states = append(c.states, s) })
	if c.refuse != nil {
		return c.refuse(s)
	}
	return nil
}

func (c *channel) ReportError(err error) { c.note(func() { c.errs = append(c.errs, err) }) }

func (c *channel) look() (states []resolver.State, errs []error, updated <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.states), slices.Clone(c.errs), c.updated
}

// await waits until ok accepts what the channel received.
func (c *channel) await(t *testing.T, what string, ok func(states []resolver.State, errs []error) bool) {
	t.Helper()
	deadline := time.After(testTimeout)
	for {
		states, errs, updated := c.look()
		if ok(states, errs) {
			return
		}
		select {
		case <-updated:
		case <-deadline:
			require.Failf(t, "waited in vain", "for %s; %d states, the last %v; errors %v", what, len(states), addressesOf(states), errs)
		}
	}
}

// addressesOf returns the addresses of the last state.
func addressesOf(states []resolver.State) []string {
	if len(states) == 0 {
		return nil
	}
	list := []string{}
	for _, e := range states[len(states)-1].Endpoints {
		for _, a := range e.Addresses {
			list = append(list, a.Addr)
		}
	}
	return list
}

func (c *channel) awaitAddresses(t *testing.T, want ...string) {
	t.Helper()
	c.await(t, fmt.Sprint(want), func(states []resolver.State, _ []error) bool {
		return len(states) > 0 && slices.Equal(addressesOf(states), want)
	})
}

func (c *channel) awaitCount(t *testing.T, n int) {
	t.Helper()
	c.await(t, fmt.Sprint(n, " addresses"), func(states []resolver.State, _ []error) bool {
		return len(states) > 0 && len(addressesOf(states)) == n
	})
}

// awaitError waits for an error beyond the first n that contains all texts.
func (c *channel) awaitError(t *testing.T, n int, texts ...string) {
	t.Helper()
	c.await(t, fmt.Sprintf("an error with %q", texts), func(_ []resolver.State, errs []error) bool {
		return slices.ContainsFunc(errs[min(n, len(errs)):], func(err error) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(err.Error(), text) })
		})
	})
}

func (c *channel) counts() (states, errs int) {
	s, e, _ := c.look()
	return len(s), len(e)
}

// build returns a channel to a target, and its resolver, which the caller closes.
func build(t *testing.T, b *builder, text string) (*channel, resolver.Resolver) {
	t.Helper()
	c := newChannel()
	r, err := b.Build(target(t, text), c, resolver.BuildOptions{})
	require.NoError(t, err)
	return c, r
}

// open returns a channel to a target, below a builder of its own.
func open(t *testing.T, server *fakeapiserver.Server, text string) *channel {
	t.Helper()
	return openWith(t, Config{REST: server.RESTConfig()}, quick(), text)
}

func openWith(t *testing.T, cfg Config, tm timing, text string) *channel {
	t.Helper()
	c, r := build(t, newTestBuilder(t, cfg, tm), text)
	t.Cleanup(r.Close)
	return c
}

// slice returns an EndpointSlice of a service with one port and ready endpoints.
func slice(service, name string, port int32, hosts ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("grpc"), Port: &port}},
	}
	for _, host := range hosts {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{host},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)},
		})
	}
	return s
}

func ptr[T any](v T) *T { return &v }

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

// startBackend runs a server for grpctest.Ask, and returns the slice of a service with it.
func startBackend(t *testing.T) *discoveryv1.EndpointSlice {
	t.Helper()
	address := netip.MustParseAddrPort(grpctest.ServeHealth(t))
	return slice("users", "a", int32(address.Port()), address.Addr().String())
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
