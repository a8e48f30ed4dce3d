package kubernetes

import (
	"slices"

	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

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
