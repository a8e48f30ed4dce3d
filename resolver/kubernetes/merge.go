package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// resolution is the result of merging the slices of a service for one target.
type resolution struct {
	endpoints []resolver.Endpoint // sorted, each backend once
	withdrawn map[string]bool     // addresses of terminating endpoints, and of those that hints exclude
	empty     error               // why there are none, nil if there are some
	gone      error               // why endpoints are used that disappeared, nil if there are none
	doubt     string              // what may be wrong with the target, or empty
}

func resolve(set []*discoveryv1.EndpointSlice, d serviceTarget, here place) resolution {
	all := entriesOf(set, d.port)
	r := resolution{endpoints: group(here.choose(available(all))), doubt: portDoubt(set, d), withdrawn: make(map[string]bool)}
	for _, e := range all {
		addr := e.address.String()
		r.withdrawn[addr] = r.withdrawn[addr] || e.ready || e.terminating
	}
	for _, e := range r.endpoints {
		for _, a := range e.Addresses {
			delete(r.withdrawn, a.Addr)
		}
	}
	if len(r.endpoints) == 0 {
		r.empty = whyEmpty(set, all, d)
	}
	return r
}

// entry is one address of one endpoint of one slice.
type entry struct {
	backend                     backendKey
	address                     netAddress
	ready, serving, terminating bool
	home                        locality
	hints                       *discoveryv1.EndpointHints
}

// backendKey identifies a backend: a pod by its UID, or else the first address.
type backendKey struct {
	uid  types.UID
	host string
}

type netAddress struct {
	host string
	ip   netip.Addr // the host, for sorting; invalid for a name
	port int32
}

func newNetAddress(host string, port int32) netAddress {
	ip, _ := netip.ParseAddr(host) // invalid for a name
	return netAddress{host: host, ip: ip, port: port}
}

func (a netAddress) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// compare puts IPv4 before IPv6, both in the order of their bytes, and names last.
func (a netAddress) compare(b netAddress) int {
	switch {
	case a.ip.IsValid() && !b.ip.IsValid():
		return -1
	case !a.ip.IsValid() && b.ip.IsValid():
		return 1
	}
	return cmp.Or(a.ip.Compare(b.ip), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
}

// entriesOf returns the entries of the slices that have the port. By the API, all addresses of an
// endpoint lead to the same backend.
func entriesOf(set []*discoveryv1.EndpointSlice, p port) []entry {
	size := 0
	for _, slice := range set {
		size += len(slice.Endpoints)
	}
	all := make([]entry, 0, size)
	for _, slice := range set {
		number, ok := p.in(slice)
		if !ok {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			for _, host := range e.Addresses {
				all = append(all, newEntry(e, e.Addresses[0], newNetAddress(host, number)))
			}
		}
	}
	return all
}

func newEntry(e *discoveryv1.Endpoint, first string, address netAddress) entry {
	c := e.Conditions
	// The defaults are ready, serving and not terminating (API reference of EndpointConditions).
	of := backendKey{host: first}
	if e.TargetRef != nil && e.TargetRef.UID != "" {
		of = backendKey{uid: e.TargetRef.UID}
	}
	return entry{
		backend: of, address: address, home: localityOf(e), hints: cmp.Or(e.Hints, noHints),
		ready: ptr.Deref(c.Ready, true), serving: ptr.Deref(c.Serving, true), terminating: ptr.Deref(c.Terminating, false),
	}
}

// available returns the ready entries and true, or if there are none the leaving entries and
// false, as kube-proxy does: they serve until the last pods are gone.
func available(all []entry) (entries []entry, ready bool) {
	entries = make([]entry, 0, len(all))
	var leaving []entry
	for _, e := range all {
		switch {
		case e.ready:
			entries = append(entries, e)
		case e.serving && e.terminating:
			leaving = append(leaving, e)
		}
	}
	if len(entries) > 0 {
		return entries, true
	}
	return leaving, false
}

// group makes one endpoint of all addresses of a backend, which may be in several slices: one for
// each IP family, and briefly two while it moves between slices. Each address is in one endpoint,
// even if a pod and its successor both have it for a while. It sorts the entries.
func group(entries []entry) []resolver.Endpoint {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.address.compare(b.address), cmp.Compare(a.backend.uid, b.backend.uid), cmp.Compare(a.backend.host, b.backend.host))
	})
	endpoints := make([]resolver.Endpoint, 0, len(entries))
	index := make(map[backendKey]int, len(entries))
	for i, e := range entries {
		if i > 0 && e.address == entries[i-1].address {
			continue
		}
		at, known := index[e.backend]
		if !known {
			at = len(endpoints)
			index[e.backend] = at
			endpoints = append(endpoints, resolver.Endpoint{Attributes: attributes.New(localityKey{}, e.home)})
		}
		endpoints[at].Addresses = append(endpoints[at].Addresses, resolver.Address{Addr: e.address.String()})
	}
	return endpoints
}

// whyEmpty returns why there are no endpoints.
func whyEmpty(set []*discoveryv1.EndpointSlice, all []entry, d serviceTarget) error {
	ports := declaredPorts(set)
	found := slices.ContainsFunc(set, func(s *discoveryv1.EndpointSlice) bool { _, ok := d.port.in(s); return ok })
	switch {
	case len(set) == 0:
		return fmt.Errorf("kubernetes: %v has no EndpointSlices: check both names; a Service without a selector needs EndpointSlices of its own", d.service)
	case len(all) > 0:
		return fmt.Errorf("kubernetes: none of the %d endpoints of %v is ready", len(group(all)), d.service)
	case !found && len(ports) > 0:
		return fmt.Errorf("kubernetes: %v has no TCP %v: its ports are %s", d.service, d.port, joinPorts(ports))
	case !found && slices.ContainsFunc(set, func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 }):
		return fmt.Errorf("kubernetes: the EndpointSlices of %v have no TCP port, as those of headless Services without ports: name the pods' port by its number in the target", d.service)
	}
	return fmt.Errorf("kubernetes: %v has no endpoints: it is scaled to zero, or no pod matches its selector", d.service)
}

// portDoubt describes a port number that none of the slices has: it may be the Service's port
// instead of the pods'. It is empty if a slice has the number.
func portDoubt(set []*discoveryv1.EndpointSlice, d serviceTarget) string {
	ports := declaredPorts(set)
	if d.port.number == 0 || len(ports) == 0 {
		return ""
	}
	if slices.ContainsFunc(ports, func(p port) bool { return p.number == d.port.number }) {
		return ""
	}
	return fmt.Sprintf("the target asks for port %[2]d of %[1]v, and its pods have %[3]s: a number is the pods' port (targetPort); for the Service's port, use its name",
		d.service, d.port.number, joinPorts(ports))
}

// store has the slices of a service by name, and their version. The version is empty until they
// have been listed, and when they must be listed again.
type store struct {
	resourceVersion string
	slices          map[string]*discoveryv1.EndpointSlice
}

func newStore() *store { return &store{slices: make(map[string]*discoveryv1.EndpointSlice)} }

// apply processes an event, and reports whether a slice changed.
func (s *store) apply(e event) bool {
	switch e.kind {
	case watch.Added, watch.Modified:
		s.slices[e.object.Name] = e.object
	case watch.Deleted:
		delete(s.slices, e.object.Name)
	default: // a bookmark, or an event of later servers, which only reports progress
		return false
	}
	return true
}

func (s *store) sorted() []*discoveryv1.EndpointSlice {
	return slices.SortedFunc(maps.Values(s.slices), func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// place is where this process runs. Hints of an empty field are ignored.
type place struct{ zone, node string }

// noHints are the hints of an entry that has none.
var noHints = new(discoveryv1.EndpointHints)

// choose follows the hints of ready entries by the rules of kube-proxy: those for the node if
// every entry has some and at least one is for this node; else those for the zone, in the same
// way; else none. Hints do not apply to leaving entries.
func (p place) choose(entries []entry, ready bool) []entry {
	if !ready {
		return entries
	}
	if near, ok := hinted(entries, p.node, forNode); ok {
		return near
	}
	if near, ok := hinted(entries, p.zone, forZone); ok {
		return near
	}
	return entries
}

// hinted returns the entries with a hint for name, and false if there is none, or if an entry has
// no hints of this kind: then the hints are being added or removed.
func hinted(entries []entry, name string, in func(h *discoveryv1.EndpointHints, name string) (some, here bool)) ([]entry, bool) {
	if name == "" {
		return nil, false
	}
	var near []entry
	for _, e := range entries {
		switch some, here := in(e.hints, name); {
		case !some:
			return nil, false
		case here:
			near = append(near, e)
		}
	}
	return near, len(near) > 0
}

func forZone(h *discoveryv1.EndpointHints, name string) (some, here bool) {
	return len(h.ForZones) > 0, slices.Contains(h.ForZones, discoveryv1.ForZone{Name: name})
}

func forNode(h *discoveryv1.EndpointHints, name string) (some, here bool) {
	return len(h.ForNodes) > 0, slices.Contains(h.ForNodes, discoveryv1.ForNode{Name: name})
}

// locality is where an endpoint runs, as its slice says. It is an attribute of the endpoint.
type locality struct{ zone, node, pod string }

type localityKey struct{}

// String names the attribute in gRPC's log.
func (localityKey) String() string { return "kubernetes.locality" }

func localityOf(e *discoveryv1.Endpoint) locality {
	l := locality{zone: ptr.Deref(e.Zone, ""), node: ptr.Deref(e.NodeName, "")}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		l.pod = e.TargetRef.Name
	}
	return l
}

func localityIn(e resolver.Endpoint) locality {
	l, _ := e.Attributes.Value(localityKey{}).(locality)
	return l
}

// Zone returns the topology zone of an endpoint that was resolved by this package, "" if its
// EndpointSlice has none.
func Zone(e resolver.Endpoint) string { return localityIn(e).zone }

// Node returns the name of the node of an endpoint, "" if its EndpointSlice has none.
func Node(e resolver.Endpoint) string { return localityIn(e).node }

// Pod returns the name of the pod of an endpoint, "" if it is not a pod.
func Pod(e resolver.Endpoint) string { return localityIn(e).pod }
