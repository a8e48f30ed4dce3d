package resolvers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/clientv3"
	"github.com/quorate/quorate/clientv3/naming/endpoints"
	"github.com/quorate/quorate/internal/fatal"
	"github.com/quorate/quorate/internal/pause"
	"github.com/quorate/quorate/lab/fault"
	"github.com/quorate/quorate/lab/internal/nameserver"
	"github.com/quorate/quorate/lab/robustness/client/quorate"
	"github.com/quorate/quorate/resolver/dns"
	"github.com/quorate/quorate/resolver/etcd"
	"github.com/quorate/quorate/resolver/kubernetes"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

// removalDelay is the MassRemovalDelay of the resolvers.
const removalDelay = 4 * time.Second

// service is the name of the backends in etcd and in Kubernetes.
const service = "soak"

// source is the source of a resolver, with its faults. Errors of its functions end them, see package fatal.
type source struct {
	// builder makes a builder as a process has one, and targets are those of its channels.
	builder func() (resolver.Builder, error)
	targets []string
	// list makes the source list these backends.
	list func(addresses []string)
	// faults are the faults that the source can have.
	faults []sourceFault
}

// sourceFault is a fault of a source.
type sourceFault struct {
	name       string
	begin, end func()
	// listed, if set, is how many of all backends the source lists meanwhile.
	listed func(all int) int
}

// sources start the source of each resolver, which ends with the workload.
var sources = map[string]func(*trial) *source{"dns": newDNS, "etcd": newEtcd, "kubernetes": newKubernetes}

// falseLists are faults that every source can have. Each lists fewer than half of the backends.
func falseLists() []sourceFault {
	nothing := func() {}
	return []sourceFault{
		{name: "names-nothing", begin: nothing, end: nothing, listed: func(int) int { return 0 }},
		{name: "names-a-part", begin: nothing, end: nothing, listed: func(all int) int { return all / 3 }},
	}
}

const (
	lookupInterval = 500 * time.Millisecond
	lookupFloor    = 100 * time.Millisecond
	lookupTimeout  = time.Second
	domain         = "soak.test."
)

// newDNS returns a DNS server that has the backends as addresses of a name, and as SRV records.
func newDNS(t *trial) *source {
	server := nameserver.New("")
	t.env.Cleanup(server.Close)
	server.OnQuery(t.arrive)
	// The name exists without an address, so the answer is then an empty one and not NXDOMAIN.
	server.Set(domain+" TXT", "1 exists")
	s := &source{
		builder: func() (resolver.Builder, error) {
			return dns.NewBuilder(dns.Config{
				Server: server.Addr, Interval: lookupInterval, MinInterval: lookupFloor, Timeout: lookupTimeout,
				MassRemovalDelay: t.cfg.removalDelay, RotationWindow: -1,
			})
		},
		targets: []string{fmt.Sprintf("dns:///%s:%d", domain, port), "dns:///_grpc._tcp." + domain},
		list: func(addresses []string) {
			all, services := make([]string, 0, len(addresses)), make([]string, 0, len(addresses))
			for _, address := range addresses {
				ip, _, _ := net.SplitHostPort(address) // an address has a port
				target := strings.ReplaceAll(ip, ".", "-") + "." + domain
				server.Set(target+" A", "1 "+ip)
				all = append(all, "0 "+ip)
				services = append(services, fmt.Sprintf("0 0 1 %d %s", port, target))
			}
			server.Set("_grpc._tcp."+domain+" SRV", services...)
			server.Set(domain+" A", all...)
		},
	}
	for _, f := range []struct {
		name string
		is   nameserver.Behaviour
	}{{"silent", nameserver.Silent}, {"servfail", nameserver.Failing}, {"refused", nameserver.Refusing}, {"foreign-answers", nameserver.Foreign}} {
		s.faults = append(s.faults, sourceFault{
			name: f.name, begin: func() { server.SetBehaviour(f.is, ".") }, end: func() { server.SetBehaviour(nameserver.WellBehaved, ".") },
		})
	}
	return s
}

const (
	// replaceTimeout bounds a change of the registrations, and replacePause is the pause before it is tried again.
	replaceTimeout, replacePause = time.Minute, 50 * time.Millisecond
	// prefix is that of the registrations.
	prefix = service + "/"
)

// newEtcd returns the cluster of the run, in which the backends are registered.
func newEtcd(t *trial) *source {
	cluster := t.env.Cluster
	// connect is called by one goroutine. The client is closed with the workload.
	connect := func(to []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
		client, err := quorate.Dial(clientv3.Config{Endpoints: to, DialOptions: opts})
		if err == nil {
			t.env.Cleanup(client.Close)
		}
		return client, err
	}
	manager := fatal.OK(endpoints.NewManager(fatal.OK(connect(cluster.DirectEndpoints())), service))
	var listed []string
	s := &source{
		builder: func() (resolver.Builder, error) {
			client, err := connect(cluster.Endpoints(), t.countCalls()...)
			if err != nil {
				return nil, err
			}
			return etcd.NewBuilder(client, etcd.Config{MassRemovalDelay: t.cfg.removalDelay})
		},
		targets: []string{"etcd:///" + service},
		list: func(addresses []string) {
			replace(manager, listed, addresses)
			listed = slices.Clone(addresses)
		},
	}
	scene := fault.Scene{Cluster: cluster, Rand: t.rng, Note: t.env.Note, Hold: time.Second}
	for _, f := range fault.ForSoaks() {
		s.faults = append(s.faults, sourceFault{
			name: f.Name,
			begin: func() {
				if err := f.Inject(context.Background(), scene); err != nil {
					t.env.Note(err.Error())
				}
			},
			end: func() { fatal.If(fault.Heal(context.Background(), scene)) },
		})
	}
	return s
}

// replace writes the registrations in one transaction, again if it fails.
func replace(manager endpoints.Manager, old, addresses []string) {
	var updates []*endpoints.UpdateWithOpts
	for _, address := range addresses {
		updates = append(updates, endpoints.NewAddUpdateOpts(prefix+address, endpoints.Endpoint{Addr: address}))
	}
	for _, address := range old {
		if !slices.Contains(addresses, address) {
			updates = append(updates, endpoints.NewDeleteUpdateOpts(prefix+address))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), replaceTimeout)
	defer cancel()
	err := manager.Update(ctx, updates)
	for err != nil && pause.For(ctx, replacePause) == nil {
		err = manager.Update(ctx, updates)
	}
	fatal.If(err)
}

// countCalls returns the options of a client whose calls and streams count as arrivals.
func (t *trial) countCalls() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			t.arrive(time.Now())
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			t.arrive(time.Now())
			return open(ctx, desc, cc, method, opts...)
		}),
	}
}

const (
	namespace = "shop"
	// maxBackoff is the longest pause between two requests to the API server while it refuses them.
	maxBackoff = 2 * time.Second
)

// newKubernetes returns an API server that has the backends in an EndpointSlice.
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
		builder: func() (resolver.Builder, error) {
			cfg := server.RESTConfig()
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				t.arrive(time.Now())
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			return kubernetes.NewBuilder(kubernetes.Config{
				REST: cfg, Namespace: namespace, MassRemovalDelay: t.cfg.removalDelay, MaxBackoff: maxBackoff,
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
