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

	"github.com/quorate/quorate/lab/internal/fatal"
	"github.com/quorate/quorate/resolver/kubernetes"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

const (
	namespace = "shop"
	service   = "soak"
)

// newKubernetes returns an API server with the backends in an EndpointSlice.
func newKubernetes(arrived *log) (*source, error) {
	server, err := fakeapiserver.Start()
	if err != nil {
		return nil, err
	}
	slice, err := server.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	})
	do := func(all ...func()) func() error {
		return func() error {
			for _, f := range all {
				f()
			}
			return nil
		}
	}
	deny := func() { server.Deny() }
	allow := func() { server.Allow() }
	return &source{
		builder: func(removalDelay time.Duration) (resolver.Builder, []string, error) {
			cfg := server.RESTConfig()
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				arrived.add(time.Now())
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			b, err := kubernetes.NewBuilder(kubernetes.Config{REST: cfg, Namespace: namespace, MassRemovalDelay: removalDelay})
			return b, []string{"kubernetes:///" + service, "kubernetes:///" + service + ":" + strconv.Itoa(port)}, err
		},
		list: func(addresses []string) { slice = fatal.OK(server.Update(sliceOf(slice, addresses))) },
		faults: []sourceFault{
			{name: "hangs", changeable: true, begin: do(server.Hang), end: do(server.Resume)},
			{name: "stopped", changeable: true, begin: do(server.Stop), end: server.Restart},
			{name: "restarted-compacted", changeable: true, begin: do(server.Stop, server.Compact), end: server.Restart},
			{name: "connections-broken", changeable: true, begin: do(server.BreakConnections), end: do(server.BreakConnections)},
			{name: "watches-ended", changeable: true, begin: do(server.EndWatches), end: do(server.EndWatches)},
			{name: "watches-expired", changeable: true, begin: do(server.ExpireWatches), end: do(server.ExpireWatches)},
			{name: "compacted", changeable: true, begin: do(server.Compact), end: do(server.Compact, server.EndWatches)},
			{
				name: "forbidden", changeable: true, begin: do(deny, server.BreakConnections), end: do(allow),
				extraTime: kubernetes.DefaultMaxBackoff, // the server is there, and does not want more requests
			},
		},
		close: func() error {
			server.Close()
			for _, r := range server.Requests() {
				arrived.add(r.At)
			}
			return nil
		},
	}, err
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
