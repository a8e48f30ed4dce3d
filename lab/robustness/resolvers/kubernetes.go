package resolvers

import (
	"context"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc/resolver"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/resolver/kubernetes"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

const (
	namespace = "shop"
	service   = "soak"
	// maxBackoff is the longest pause between two requests to the API server while it refuses them.
	maxBackoff = 2 * time.Second
)

// newKubernetes returns an API server with the backends in an EndpointSlice.
func newKubernetes(t *trial) *source {
	server := fatal.OK(fakeapiserver.Start())
	t.env.Cleanup(func() error {
		server.Close()
		for _, r := range server.Requests() {
			t.arrive(r.At)
		}
		return nil
	})
	slice := fatal.OK(server.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}))
	restart := func() { fatal.If(server.Restart()) }
	return &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, error) {
			cfg := server.RESTConfig()
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				t.arrive(time.Now())
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			return kubernetes.NewBuilder(kubernetes.Config{
				REST: cfg, Namespace: namespace, MassRemovalDelay: removalDelay, MaxBackoff: maxBackoff,
			})
		},
		targets: []string{"kubernetes:///" + service, "kubernetes:///" + service + ":" + strconv.Itoa(port)},
		list:    func(addresses []string) { slice = fatal.OK(server.Update(sliceOf(slice, addresses))) },
		faults: []sourceFault{
			{name: "hangs", begin: server.Hang, end: server.Resume},
			{name: "stopped", begin: server.Stop, end: restart},
			{name: "restarted-compacted", begin: func() { server.Stop(); server.Compact() }, end: restart},
			{name: "connections-broken", begin: server.BreakConnections, end: server.BreakConnections},
			{name: "watches-ended", begin: server.EndWatches, end: server.EndWatches},
			{name: "watches-expired", begin: server.ExpireWatches, end: server.ExpireWatches},
			{name: "forbidden", begin: func() { server.Deny(); server.BreakConnections() }, end: func() { server.Allow() }},
		},
	}
}

// sliceOf returns a slice with other backends.
func sliceOf(slice *discoveryv1.EndpointSlice, addresses []string) *discoveryv1.EndpointSlice {
	next := slice.DeepCopy()
	next.Ports = []discoveryv1.EndpointPort{{Port: new(int32(port)), Protocol: new(corev1.ProtocolTCP)}}
	next.ResourceVersion, next.Endpoints = "", nil
	for _, address := range addresses {
		ip, _, err := net.SplitHostPort(address)
		fatal.If(err)
		next.Endpoints = append(next.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + ip, UID: types.UID(ip)},
		})
	}
	return next
}
