package kubernetes

import (
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// locality is where an endpoint runs, as its slice says. It is an attribute of the endpoint.
type locality struct{ zone, node, pod string }

type localityKey struct{}

// String names the attribute in gRPC's log.
func (localityKey) String() string { return "kubernetes.home" }

func localityOf(e *discoveryv1.Endpoint) locality {
	var h locality
	if e.Zone != nil {
		h.zone = *e.Zone
	}
	if e.NodeName != nil {
		h.node = *e.NodeName
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		h.pod = e.TargetRef.Name
	}
	return h
}

func localityIn(e resolver.Endpoint) locality {
	h, _ := e.Attributes.Value(localityKey{}).(locality)
	return h
}

// Zone returns the topology zone of an endpoint that was resolved by this package, "" if its
// EndpointSlice has none.
func Zone(e resolver.Endpoint) string { return localityIn(e).zone }

// Node returns the name of the node of an endpoint, "" if its EndpointSlice has none.
func Node(e resolver.Endpoint) string { return localityIn(e).node }

// Pod returns the name of the pod of an endpoint, "" if it is not a pod.
func Pod(e resolver.Endpoint) string { return localityIn(e).pod }
