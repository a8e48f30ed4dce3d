package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// resolution is what the slices of a service come to for one target.
type resolution struct {
	endpoints []resolver.Endpoint // sorted, each backend once
	empty     error               // why there are none, nil if there are some
	doubt     string              // what may be wrong with the target, empty if nothing
}

// resolve merges all slices of a service.
func resolve(set []*discoveryv1.EndpointSlice, d destination, here place) resolution {
	all := entriesOf(set, d.port)
	r := resolution{endpoints: group(here.choose(available(all))), doubt: doubtful(set, d)}
	if len(r.endpoints) == 0 {
		r.empty = whyEmpty(set, all, d)
	}
	return r
}

// entry is one address of one endpoint of one slice.
type entry struct {
	backend string // the pod's UID, or the address where there is none
	address netAddress
	ready   bool
	leaving bool // serving its last calls: serving and terminating
	hints   *discoveryv1.EndpointHints
}

// netAddress is an address to connect to, and its host for sorting.
type netAddress struct {
	host string
	port int32
}

func (a netAddress) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// compare puts IPv4 before IPv6, both in the order of their bytes, and names last.
func (a netAddress) compare(b netAddress) int {
	x, errX := netip.ParseAddr(a.host)
	y, errY := netip.ParseAddr(b.host)
	switch {
	case errX == nil && errY != nil:
		return -1
	case errX != nil && errY == nil:
		return 1
	}
	return cmp.Or(x.Compare(y), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
}

// entriesOf returns what the slices that have the port consist of. All addresses of an
// endpoint lead to the same backend, says the API.
func entriesOf(set []*discoveryv1.EndpointSlice, p port) []entry {
	var all []entry
	for _, slice := range set {
		number, ok := p.in(slice)
		if !ok {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			for _, host := range e.Addresses {
				all = append(all, newEntry(e, e.Addresses[0], netAddress{host: host, port: number}))
			}
		}
	}
	return all
}

func newEntry(e *discoveryv1.Endpoint, first string, address netAddress) entry {
	c := e.Conditions
	// What is not said: ready, serving and not terminating (API reference of EndpointConditions).
	ready := c.Ready == nil || *c.Ready
	serving := c.Serving == nil || *c.Serving
	terminating := c.Terminating != nil && *c.Terminating
	backend := "address " + first
	if e.TargetRef != nil && e.TargetRef.UID != "" {
		backend = "uid " + string(e.TargetRef.UID)
	}
	return entry{backend: backend, address: address, ready: ready, leaving: !ready && serving && terminating, hints: e.Hints}
}

// available returns the entries that are ready and true, or if there are none those that
// serve their last calls and false, as kube-proxy does: they are better than nothing while
// the last pods go.
func available(all []entry) (entries []entry, ready bool) {
	var leaving []entry
	for _, e := range all {
		switch {
		case e.ready:
			entries = append(entries, e)
		case e.leaving:
			leaving = append(leaving, e)
		}
	}
	if len(entries) > 0 {
		return entries, true
	}
	return leaving, false
}

// group makes one endpoint of all addresses of a backend, which may be in several slices: one
// for each IP family, and for a moment two while it moves from one slice to another.
func group(entries []entry) []resolver.Endpoint {
	backends := make(map[string][]netAddress)
	for _, e := range entries {
		backends[e.backend] = append(backends[e.backend], e.address)
	}
	for name, addresses := range backends {
		slices.SortFunc(addresses, netAddress.compare)
		backends[name] = slices.Compact(addresses)
	}
	sorted := slices.SortedFunc(maps.Values(backends), func(a, b []netAddress) int {
		return slices.CompareFunc(a, b, netAddress.compare)
	})
	endpoints := make([]resolver.Endpoint, len(sorted))
	for i, addresses := range sorted {
		endpoints[i].Addresses = make([]resolver.Address, len(addresses))
		for j, address := range addresses {
			endpoints[i].Addresses[j].Addr = address.String()
		}
	}
	return endpoints
}

// sameEndpoints reports whether two lists have the same addresses in the same order.
func sameEndpoints(a, b []resolver.Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y resolver.Endpoint) bool {
		return slices.EqualFunc(x.Addresses, y.Addresses, func(p, q resolver.Address) bool { return p.Addr == q.Addr })
	})
}

// whyEmpty says what is missing.
func whyEmpty(set []*discoveryv1.EndpointSlice, all []entry, d destination) error {
	ports := declaredPorts(set)
	found := slices.ContainsFunc(set, func(s *discoveryv1.EndpointSlice) bool { _, ok := d.port.in(s); return ok })
	switch {
	case len(set) == 0:
		return fmt.Errorf("kubernetes: %v has no EndpointSlices: check both names; a Service without a selector needs EndpointSlices of its own", d.service)
	case len(all) > 0:
		return fmt.Errorf("kubernetes: none of the %d endpoints of %v is ready", len(group(all)), d.service)
	case !found && len(ports) > 0:
		return fmt.Errorf("kubernetes: %v has no TCP %v: its ports are %s", d.service, d.port, joinPorts(ports))
	case !found && hasEndpoints(set):
		return fmt.Errorf("kubernetes: the EndpointSlices of %v have no TCP port, as those of headless Services without ports: name the pods' port by its number in the target", d.service)
	}
	return fmt.Errorf("kubernetes: %v has no endpoints: it is scaled to zero, or no pod matches its selector", d.service)
}

func hasEndpoints(set []*discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(set, func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 })
}

// doubtful says what is strange about a port number that none of the slices has: it may be
// the Service's port and not the pods'.
func doubtful(set []*discoveryv1.EndpointSlice, d destination) string {
	ports := declaredPorts(set)
	if d.port.number == 0 || len(ports) == 0 {
		return ""
	}
	if slices.ContainsFunc(ports, func(p declared) bool { return p.number == d.port.number }) {
		return ""
	}
	return fmt.Sprintf("%v is asked for at port %d, and its pods have %s: a number is the pods' port (targetPort), not the Service's; if that was meant, name the port instead",
		d.service, d.port.number, joinPorts(ports))
}
