package fakeapiserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	resource = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	kind     = metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"}
)

type key struct{ namespace, name string }

// change is one entry of the history. Objects in it are never changed again.
type change struct {
	version  int64
	old, new *discoveryv1.EndpointSlice // nil: not there
}

// objects are the current ones, and the history of their changes.
type objects struct {
	version   int64
	compacted int64 // watches can go on from this version and later ones
	current   map[key]*discoveryv1.EndpointSlice
	history   []change
}

// scope is what a list or watch asks for.
type scope struct {
	namespace string // empty: all
	selector  labels.Selector
}

func (c scope) matches(object *discoveryv1.EndpointSlice) bool {
	return object != nil && (c.namespace == "" || c.namespace == object.Namespace) && c.selector.Matches(labels.Set(object.Labels))
}

// list returns the objects of a scope by name.
func (o *objects) list(c scope) []*discoveryv1.EndpointSlice {
	found := slices.DeleteFunc(slices.Collect(maps.Values(o.current)), func(o *discoveryv1.EndpointSlice) bool { return !c.matches(o) })
	slices.SortFunc(found, func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// store stores an object, or deletes the current one if object is nil. exists says whether there must be a current one: the
// errors are NotFound and AlreadyExists.
func (s *Server) store(at key, object *discoveryv1.EndpointSlice, exists bool) (*discoveryv1.EndpointSlice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.objects
	old := o.current[at]
	switch {
	case old == nil && exists:
		return nil, apierrors.NewNotFound(resource, at.name)
	case old != nil && !exists:
		return nil, apierrors.NewAlreadyExists(resource, at.name)
	}
	o.version++
	if object == nil {
		delete(o.current, at)
	} else {
		object = object.DeepCopy()
		object.TypeMeta, object.ResourceVersion = kind, strconv.FormatInt(o.version, 10)
		o.current[at] = object
	}
	o.history = append(o.history, change{version: o.version, old: old, new: object})
	s.changedLocked()
	return object.DeepCopy(), nil
}

// Create adds an EndpointSlice, and returns it as it is stored. It needs a name, a namespace,
// and the label kubernetes.io/service-name to belong to a service. The error is an
// AlreadyExists of k8s.io/apimachinery/pkg/api/errors.
func (s *Server) Create(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	return s.store(key{slice.Namespace, slice.Name}, slice, false)
}

// Update replaces an EndpointSlice, whatever resource version is given. The error is NotFound.
func (s *Server) Update(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	return s.store(key{slice.Namespace, slice.Name}, slice, true)
}

// Delete removes an EndpointSlice. The error is NotFound.
func (s *Server) Delete(namespace, name string) error {
	_, err := s.store(key{namespace, name}, nil, true)
	return err
}

// Compact forgets the history of changes and increments the resource version, so that every watch that resumes from an
// earlier version gets status 410. Open watches continue.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.version++
	s.objects.compacted = s.objects.version
}
