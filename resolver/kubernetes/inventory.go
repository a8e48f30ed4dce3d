package kubernetes

import (
	"cmp"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// inventory is the known state of a service: its slices by name, and their version. The version is
// empty until they have been listed, and when they must be listed again.
type inventory struct {
	version string
	slices  map[string]*discoveryv1.EndpointSlice
}

// apply takes an event in, and reports whether a slice changed.
func (i *inventory) apply(e event) bool {
	switch e.kind {
	case watch.Added, watch.Modified:
		i.slices[e.object.Name] = e.object
	case watch.Deleted:
		delete(i.slices, e.object.Name)
	case watch.Bookmark:
		return false
	default: // of later servers, which only report progress
		return false
	}
	return true
}

func (i *inventory) sorted() []*discoveryv1.EndpointSlice {
	return slices.SortedFunc(maps.Values(i.slices), func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

func newInventory() *inventory {
	return &inventory{slices: make(map[string]*discoveryv1.EndpointSlice)}
}
