package kubernetes

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/resolver"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/internal/feed"
)

// pod makes an endpoint refer to a pod.
func pod(e discoveryv1.Endpoint, uid string) discoveryv1.Endpoint {
	e.TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: types.UID(uid)}
	return e
}

func endpointIn(host string, conditions discoveryv1.EndpointConditions) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{host}, Conditions: conditions}
}

func conditions(ready, serving, terminating *bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}
}

// of returns a slice of the service, on port 80, with these endpoints.
func of(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := slice("users", name, 80)
	s.Endpoints = endpoints
	return s
}

// written separates endpoints by blanks, and their addresses by commas.
func written(endpoints []resolver.Endpoint) string {
	all := make([]string, len(endpoints))
	for i, e := range endpoints {
		addresses := make([]string, len(e.Addresses))
		for j, a := range e.Addresses {
			addresses[j] = a.Addr
		}
		all[i] = strings.Join(addresses, ",")
	}
	return strings.Join(all, " ")
}

func named(p port) serviceTarget {
	return serviceTarget{service: serviceKey{namespace: "shop", name: "users"}, port: p}
}

// Slices are merged, in any order.
func TestResolve(t *testing.T) {
	yes, no, going := conditions(new(true), nil, nil), conditions(new(false), nil, nil), conditions(new(false), new(true), new(true))
	leaving := []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", false, []string{"a"}, nil), hintedEndpoint("10.0.0.2", false, []string{"b"}, nil)}
	leaving[0].Conditions, leaving[1].Conditions = going, going
	six := func(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		s := of("six", endpoints...)
		s.AddressType = discoveryv1.AddressTypeIPv6
		return s
	}
	four1, six1 := pod(endpointIn("10.0.0.1", yes), "u1"), pod(endpointIn("fd00::1", yes), "u1")
	for name, c := range map[string]struct {
		set  []*discoveryv1.EndpointSlice
		want string
	}{
		"an endpoint that moves between slices, and another port": {
			[]*discoveryv1.EndpointSlice{slice("users", "b", 80, "10.0.0.10", "10.0.0.9"), slice("users", "a", 80, "10.0.0.2", "10.0.0.9"), slice("users", "c", 81, "10.0.0.1")},
			"10.0.0.1:81 10.0.0.2:80 10.0.0.9:80 10.0.0.10:80",
		},
		"several addresses of one endpoint": {
			[]*discoveryv1.EndpointSlice{of("a", discoveryv1.Endpoint{Addresses: []string{"10.0.0.2", "10.0.0.1"}}, endpointIn("10.0.0.3", yes))},
			"10.0.0.1:80,10.0.0.2:80 10.0.0.3:80",
		},
		"names after addresses": {
			[]*discoveryv1.EndpointSlice{slice("users", "a", 80, "b.example", "fd00::1", "a.example", "10.0.0.1")},
			"10.0.0.1:80 [fd00::1]:80 a.example:80 b.example:80",
		},
		"both families": {
			[]*discoveryv1.EndpointSlice{
				of("four", pod(endpointIn("10.0.0.2", yes), "u2"), four1),
				six(six1, pod(endpointIn("fd00::2", yes), "u2"), pod(endpointIn("fd00::3", yes), "u3")),
			},
			"10.0.0.1:80,[fd00::1]:80 10.0.0.2:80,[fd00::2]:80 [fd00::3]:80",
		},
		// The slices of a pod's families change one after the other.
		"one family becomes ready":  {[]*discoveryv1.EndpointSlice{of("four", four1), six(pod(endpointIn("fd00::1", no), "u1"))}, "10.0.0.1:80"},
		"one family is terminating": {[]*discoveryv1.EndpointSlice{of("four", pod(endpointIn("10.0.0.1", going), "u1")), six(six1)}, "[fd00::1]:80"},
		"both families are terminating": {
			[]*discoveryv1.EndpointSlice{of("four", pod(endpointIn("10.0.0.1", going), "u1")), six(pod(endpointIn("fd00::1", going), "u1"))},
			"10.0.0.1:80,[fd00::1]:80",
		},
		// A deleted pod and its successors share an address until all slices are updated.
		"an address of three pods": {
			[]*discoveryv1.EndpointSlice{
				of("old", four1), six(pod(endpointIn("fd00::1", yes), "u2")),
				of("new", pod(endpointIn("10.0.0.1", yes), "u2"), pod(endpointIn("10.0.0.1", yes), "u3")),
			},
			"10.0.0.1:80 [fd00::1]:80",
		},
		"hints of leaving endpoints are not used": {[]*discoveryv1.EndpointSlice{of("a", leaving...)}, "10.0.0.1:80 10.0.0.2:80"},
		"a slice without hints": {
			[]*discoveryv1.EndpointSlice{of("a", hintedEndpoint("10.0.0.1", true, []string{"a"}, nil)), of("b", endpointIn("10.0.0.2", yes))},
			"10.0.0.1:80 10.0.0.2:80",
		},
	} {
		for range 2 {
			got := resolve(c.set, named(port{}), place{zone: "a"})
			assert.Equal(t, c.want, written(got.endpoints), name)
			assert.NoError(t, got.empty, name)
			assert.Empty(t, got.doubt, name)
			slices.Reverse(c.set)
		}
	}
}

func TestResolvePorts(t *testing.T) {
	udp := corev1.ProtocolUDP
	several := slice("users", "a", 80, "10.0.0.1")
	several.Ports = []discoveryv1.EndpointPort{
		{Name: new("dns"), Port: new(int32(53)), Protocol: &udp},
		{Name: new("any")}, // unusable without a number
		{Name: new("grpc"), Port: new(int32(8080))},
		{Name: new("metrics"), Port: new(int32(9090))},
	}
	unnamed := slice("users", "b", 80, "10.0.0.2")
	unnamed.Ports[0].Name = nil
	portless := slice("users", "c", 80, "10.0.0.3")
	portless.Ports = nil
	onlyUDP := slice("users", "d", 80, "10.0.0.4")
	onlyUDP.Ports = []discoveryv1.EndpointPort{{Name: new("dns"), Port: new(int32(53)), Protocol: &udp}}

	for name, c := range map[string]struct {
		set   []*discoveryv1.EndpointSlice
		port  port
		want  string
		empty string
		doubt string
	}{
		"first":                 {set: []*discoveryv1.EndpointSlice{several, unnamed}, want: "10.0.0.1:8080 10.0.0.2:80"},
		"first, slice has none": {set: []*discoveryv1.EndpointSlice{unnamed, portless}, want: "10.0.0.2:80"},
		"named":                 {set: []*discoveryv1.EndpointSlice{several, unnamed}, port: port{name: "metrics"}, want: "10.0.0.1:9090"},
		"named, absent":         {set: []*discoveryv1.EndpointSlice{several, unnamed}, port: port{name: "nosuch"}, empty: `has no TCP port named "nosuch": its ports are 80, grpc (8080), metrics (9090)`},
		"named, UDP":            {set: []*discoveryv1.EndpointSlice{several}, port: port{name: "dns"}, empty: `has no TCP port named "dns": its ports are grpc (8080), metrics (9090)`},
		"number of a port":      {set: []*discoveryv1.EndpointSlice{several}, port: port{number: 9090}, want: "10.0.0.1:9090"},
		"number of no port":     {set: []*discoveryv1.EndpointSlice{several}, port: port{number: 80}, want: "10.0.0.1:80", doubt: "asks for port 80 of service \"users\" in namespace \"shop\", and its pods have grpc (8080), metrics (9090)"},
		"number, no ports":      {set: []*discoveryv1.EndpointSlice{portless}, port: port{number: 80}, want: "10.0.0.3:80"},
		"first, no ports":       {set: []*discoveryv1.EndpointSlice{portless}, empty: "have no TCP port, as those of headless Services without ports"},
		"named, no ports":       {set: []*discoveryv1.EndpointSlice{portless}, port: port{name: "grpc"}, empty: "have no TCP port, as those of headless Services without ports"},
		"first, only UDP":       {set: []*discoveryv1.EndpointSlice{onlyUDP}, empty: "have no TCP port"},
		"different per slice":   {set: []*discoveryv1.EndpointSlice{slice("users", "x", 1, "10.0.0.1"), slice("users", "y", 2, "10.0.0.2")}, port: port{name: "grpc"}, want: "10.0.0.1:1 10.0.0.2:2"},
	} {
		got := resolve(c.set, named(c.port), place{})
		if c.empty != "" {
			assert.Empty(t, got.endpoints, name)
			assert.ErrorContains(t, got.empty, c.empty, name)
			assert.ErrorContains(t, got.empty, `service "users" in namespace "shop"`, name)
			continue
		}
		assert.NoError(t, got.empty, name)
		assert.Equal(t, c.want, written(got.endpoints), name)
		if c.doubt == "" {
			assert.Empty(t, got.doubt, name)
		}
		assert.Contains(t, got.doubt, c.doubt, name)
	}
}

func TestResolveConditions(t *testing.T) {
	yes, no := new(true), new(false)
	ready, unknown := conditions(yes, yes, no), conditions(nil, nil, nil)
	notReady, leaving, gone := conditions(no, no, no), conditions(no, yes, yes), conditions(no, no, yes)
	published := conditions(yes, no, yes) // publishNotReadyAddresses
	for name, c := range map[string]struct {
		of   []discoveryv1.EndpointConditions
		want string
	}{
		"ready":                                 {of: []discoveryv1.EndpointConditions{ready, notReady}, want: "10.0.0.0:80"},
		"no conditions":                         {of: []discoveryv1.EndpointConditions{unknown, notReady}, want: "10.0.0.0:80"},
		"published though not ready":            {of: []discoveryv1.EndpointConditions{published, leaving}, want: "10.0.0.0:80"},
		"leaving beside ready":                  {of: []discoveryv1.EndpointConditions{leaving, ready}, want: "10.0.0.1:80"},
		"leaving, nothing better":               {of: []discoveryv1.EndpointConditions{leaving, gone, notReady, leaving}, want: "10.0.0.0:80 10.0.0.3:80"},
		"leaving without the serving condition": {of: []discoveryv1.EndpointConditions{conditions(no, nil, yes)}, want: "10.0.0.0:80"},
		"serving, not ready, not leaving":       {of: []discoveryv1.EndpointConditions{conditions(no, yes, no)}},
		"none":                                  {of: []discoveryv1.EndpointConditions{notReady, gone}},
	} {
		s := of("a")
		for i, conditions := range c.of {
			s.Endpoints = append(s.Endpoints, endpointIn("10.0.0."+strconv.Itoa(i), conditions))
		}
		got := resolve([]*discoveryv1.EndpointSlice{s}, named(port{}), place{})
		assert.Equal(t, c.want, written(got.endpoints), name)
		if c.want == "" {
			assert.ErrorContains(t, got.empty, "none of the ", name)
		}
	}
}

func TestResolveEmpty(t *testing.T) {
	no, portless := conditions(new(false), nil, nil), of("a")
	portless.Ports = nil // as the controller writes it without pods
	for _, c := range []struct {
		set  []*discoveryv1.EndpointSlice
		port port
		want string
	}{
		{nil, port{}, `service "users" in namespace "shop" has no EndpointSlices`},
		{[]*discoveryv1.EndpointSlice{of("a")}, port{}, "has no endpoints"},
		{[]*discoveryv1.EndpointSlice{of("a")}, port{name: "grpc"}, "has no endpoints"},
		{[]*discoveryv1.EndpointSlice{of("a")}, port{number: 90}, "has no endpoints"},
		{[]*discoveryv1.EndpointSlice{portless}, port{name: "grpc"}, "has no endpoints"},
		{[]*discoveryv1.EndpointSlice{of("a", endpointIn("10.0.0.1", no), endpointIn("10.0.0.2", no))}, port{}, "none of the 2 endpoints"},
	} {
		assert.ErrorContains(t, resolve(c.set, named(c.port), place{}).empty, c.want)
	}
}

// hintedEndpoint has hints for zones and nodes, comma-separated.
func hintedEndpoint(host string, ready bool, zones, nodes []string) discoveryv1.Endpoint {
	e := endpointIn(host, conditions(&ready, nil, nil))
	if zones == nil && nodes == nil {
		return e
	}
	e.Hints = new(discoveryv1.EndpointHints)
	for _, z := range zones {
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: z})
	}
	for _, n := range nodes {
		e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: n})
	}
	return e
}

func TestResolveHints(t *testing.T) {
	a, b := []string{"a"}, []string{"b"}
	n1, n2 := []string{"n1"}, []string{"n2"}
	for name, c := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		here      place
		want      string
	}{
		"zone":                         {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, nil), hintedEndpoint("10.0.0.2", true, b, nil)}, here: place{zone: "a"}, want: "10.0.0.1:80"},
		"zone not known":               {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, nil), hintedEndpoint("10.0.0.2", true, b, nil)}, want: "10.0.0.1:80 10.0.0.2:80"},
		"no hint for the zone":         {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, nil), hintedEndpoint("10.0.0.2", true, b, nil)}, here: place{zone: "c"}, want: "10.0.0.1:80 10.0.0.2:80"},
		"one without hints":            {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, nil), hintedEndpoint("10.0.0.2", true, nil, nil)}, here: place{zone: "a"}, want: "10.0.0.1:80 10.0.0.2:80"},
		"one not ready without hints":  {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, nil), hintedEndpoint("10.0.0.2", false, nil, nil), hintedEndpoint("10.0.0.3", true, b, nil)}, here: place{zone: "a"}, want: "10.0.0.1:80"},
		"only a not ready one matches": {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", false, a, nil), hintedEndpoint("10.0.0.2", true, b, nil)}, here: place{zone: "a"}, want: "10.0.0.2:80"},
		"one for several zones":        {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, []string{"b", "a"}, nil), hintedEndpoint("10.0.0.2", true, b, nil)}, here: place{zone: "a"}, want: "10.0.0.1:80"},
		"node before zone":             {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, n1), hintedEndpoint("10.0.0.2", true, a, n2)}, here: place{zone: "a", node: "n2"}, want: "10.0.0.2:80"},
		"none for the node, so zone":   {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, n1), hintedEndpoint("10.0.0.2", true, b, n2)}, here: place{zone: "b", node: "n3"}, want: "10.0.0.2:80"},
		"one without node hints":       {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, a, n1), hintedEndpoint("10.0.0.2", true, a, nil)}, here: place{zone: "a", node: "n1"}, want: "10.0.0.1:80 10.0.0.2:80"},
		"node only":                    {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, nil, n1), hintedEndpoint("10.0.0.2", true, nil, n2)}, here: place{node: "n1"}, want: "10.0.0.1:80"},
		"node not known":               {endpoints: []discoveryv1.Endpoint{hintedEndpoint("10.0.0.1", true, nil, n1), hintedEndpoint("10.0.0.2", true, nil, n2)}, here: place{zone: "a"}, want: "10.0.0.1:80 10.0.0.2:80"},
	} {
		got := resolve([]*discoveryv1.EndpointSlice{of("a", c.endpoints...)}, named(port{}), c.here)
		assert.Equal(t, c.want, written(got.endpoints), name)
	}
}

func TestResolveTellsWhereEndpointsRun(t *testing.T) {
	s := slice("users", "a", 80, "10.0.0.1", "10.0.0.2")
	s.Endpoints[0].Zone, s.Endpoints[0].NodeName = new("eu-a"), new("n1")
	s.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "users-1", UID: "u1"}
	before := resolve([]*discoveryv1.EndpointSlice{s}, named(port{}), place{}).endpoints
	assert.Equal(t, []string{"eu-a", "n1", "users-1"}, []string{Zone(before[0]), Node(before[0]), Pod(before[0])})
	assert.Equal(t, []string{"", "", ""}, []string{Zone(before[1]), Node(before[1]), Pod(before[1])})
	s.Endpoints[0].Zone = new("eu-b")
	after := resolve([]*discoveryv1.EndpointSlice{s}, named(port{}), place{}).endpoints
	assert.False(t, feed.Equal(before, after), "the channel is updated")
}
