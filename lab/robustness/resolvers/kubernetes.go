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

// kubernetesSource is an API server with the backends in an EndpointSlice.
type kubernetesSource struct {
	server *fakeapiserver.Server
	dials  log
	slice  *discoveryv1.EndpointSlice
}

func newKubernetes() (source, error) {
	server, err := fakeapiserver.Start()
	if err != nil {
		return nil, err
	}
	s := &kubernetesSource{server: server}
	s.slice, err = server.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	})
	return s, err
}

func (s *kubernetesSource) builder(removalDelay time.Duration) (resolver.Builder, []string, error) {
	cfg := s.server.RESTConfig()
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials.add(time.Now())
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	b, err := kubernetes.NewBuilder(kubernetes.Config{REST: cfg, Namespace: namespace, MassRemovalDelay: removalDelay})
	return b, []string{"kubernetes:///" + service, "kubernetes:///" + service + ":" + strconv.Itoa(port)}, err
}

func (s *kubernetesSource) list(addresses []string) {
	next := s.slice.DeepCopy()
	number, protocol, ready := int32(port), corev1.ProtocolTCP, true
	next.Ports = []discoveryv1.EndpointPort{{Port: &number, Protocol: &protocol}}
	next.ResourceVersion, next.Endpoints = "", nil
	for _, address := range addresses {
		ip, _, err := net.SplitHostPort(address)
		fatal.If(err)
		next.Endpoints = append(next.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + ip, UID: types.UID(ip)},
		})
	}
	s.slice = fatal.OK(s.server.Update(next))
}

func (s *kubernetesSource) faults() []disturbance {
	do := func(all ...func()) func() error {
		return func() error {
			for _, f := range all {
				f()
			}
			return nil
		}
	}
	deny := func() { s.server.Deny() }
	allow := func() { s.server.Allow() }
	return append(falseLists(),
		disturbance{name: "hangs", open: true, begin: do(s.server.Hang), end: do(s.server.Resume)},
		disturbance{name: "stopped", open: true, begin: do(s.server.Stop), end: s.server.Restart},
		disturbance{name: "restarted-compacted", open: true, begin: do(s.server.Stop, s.server.Compact), end: s.server.Restart},
		disturbance{name: "connections-broken", open: true, begin: do(s.server.BreakConnections), end: do(s.server.BreakConnections)},
		disturbance{name: "watches-ended", open: true, begin: do(s.server.EndWatches), end: do(s.server.EndWatches)},
		disturbance{name: "watches-expired", open: true, begin: do(s.server.ExpireWatches), end: do(s.server.ExpireWatches)},
		disturbance{name: "compacted", open: true, begin: do(s.server.Compact), end: do(s.server.Compact, s.server.EndWatches)},
		disturbance{
			name: "forbidden", open: true, begin: do(deny, s.server.BreakConnections), end: do(allow),
			patience: kubernetes.DefaultMaxBackoff, // the server is there, and does not want more requests
		},
	)
}

func (s *kubernetesSource) patience() time.Duration { return 0 }

func (s *kubernetesSource) arrivals() []time.Time {
	all := s.dials.all()
	for _, r := range s.server.Requests() {
		all = append(all, r.At)
	}
	return all
}

func (s *kubernetesSource) close() error {
	s.server.Close()
	return nil
}
