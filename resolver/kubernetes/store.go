package kubernetes

import (
	"cmp"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/watch"
)

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
