package kubernetes

import (
	"google.golang.org/grpc/resolver"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// home is where an endpoint runs, as its slice says. It is an attribute of the endpoint.
type home struct{ zone, node, pod string }

type homeKey struct{}

// String names the attribute in gRPC's log.
func (homeKey) String() string { return "kubernetes.home" }

func homeOf(e *discoveryv1.Endpoint) home {
	var h home
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

func homeIn(e resolver.Endpoint) home {
	h, _ := e.Attributes.Value(homeKey{}).(home)
	return h
}

// Zone returns the topology zone of an endpoint that was resolved by this package, "" if its
// EndpointSlice says none.
func Zone(e resolver.Endpoint) string { return homeIn(e).zone }

// Node returns the name of the node that an endpoint runs on, "" if its EndpointSlice says
// none.
func Node(e resolver.Endpoint) string { return homeIn(e).node }

// Pod returns the name of the pod that an endpoint is, "" if it is none.
func Pod(e resolver.Endpoint) string { return homeIn(e).pod }
