package fakeapiserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

var resource = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}

type key struct{ namespace, name string }

// change is one entry of the history. Objects in it are never changed again.
type change struct {
	version  int64
	old, new *discoveryv1.EndpointSlice // nil: not there
}

// store holds the objects and the history of their changes.
type store struct {
	mu        sync.Mutex
	version   int64
	compacted int64 // watches can go on from this version and later ones
	objects   map[key]*discoveryv1.EndpointSlice
	history   []change
	more      chan struct{} // closed and replaced with each change
	epoch     *epoch
	open      int // watches
}

// epoch ends when all watches must end.
type epoch struct {
	over    chan struct{}
	expired bool // how they end; read after over is closed
}

func newStore() *store {
	return &store{
		version: 1,
		objects: make(map[key]*discoveryv1.EndpointSlice),
		more:    make(chan struct{}),
		epoch:   &epoch{over: make(chan struct{})},
	}
}

func (s *store) watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *store) endWatches(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch.expired = expired
	close(s.epoch.over)
	s.epoch = &epoch{over: make(chan struct{})}
}

func (s *store) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.compacted = s.version
}

// apply records that an object becomes another one, nil if it is created or deleted.
func (s *store) apply(old, object *discoveryv1.EndpointSlice) {
	s.version++
	if object != nil {
		object.ResourceVersion = strconv.FormatInt(s.version, 10)
		s.objects[key{object.Namespace, object.Name}] = object
	} else {
		delete(s.objects, key{old.Namespace, old.Name})
	}
	s.history = append(s.history, change{version: s.version, old: old, new: object})
	close(s.more)
	s.more = make(chan struct{})
}

func (s *store) create(object *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	object = object.DeepCopy()
	if object.Name == "" || object.Namespace == "" {
		return nil, apierrors.NewBadRequest("an EndpointSlice needs a name and a namespace")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key{object.Namespace, object.Name}] != nil {
		return nil, apierrors.NewAlreadyExists(resource, object.Name)
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"}
	object.UID = uuid.NewUUID()
	object.CreationTimestamp = metav1.Now()
	object.Generation = 1
	s.apply(nil, object)
	return object.DeepCopy(), nil
}

func (s *store) update(object *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	object = object.DeepCopy()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[key{object.Namespace, object.Name}]
	if old == nil {
		return nil, apierrors.NewNotFound(resource, object.Name)
	}
	if object.ResourceVersion != "" && object.ResourceVersion != old.ResourceVersion {
		return nil, apierrors.NewConflict(resource, object.Name, errConflict)
	}
	object.TypeMeta, object.UID, object.CreationTimestamp = old.TypeMeta, old.UID, old.CreationTimestamp
	object.Generation = old.Generation + 1
	s.apply(old, object)
	return object.DeepCopy(), nil
}

func (s *store) remove(namespace, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[key{namespace, name}]
	if old == nil {
		return apierrors.NewNotFound(resource, name)
	}
	s.apply(old, nil)
	return nil
}

func (s *store) get(namespace, name string) (*discoveryv1.EndpointSlice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object := s.objects[key{namespace, name}]; object != nil {
		return object.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

// scope is what a list or watch asks for.
type scope struct {
	namespace string // empty: all
	selector  labels.Selector
}

func (c scope) matches(object *discoveryv1.EndpointSlice) bool {
	return object != nil && (c.namespace == "" || c.namespace == object.Namespace) && c.selector.Matches(labels.Set(object.Labels))
}

// list returns the objects, by name, and their version.
func (s *store) list(c scope) ([]*discoveryv1.EndpointSlice, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listLocked(c), s.version
}

func (s *store) listLocked(c scope) []*discoveryv1.EndpointSlice {
	found := slices.DeleteFunc(slices.Collect(maps.Values(s.objects)), func(o *discoveryv1.EndpointSlice) bool { return !c.matches(o) })
	slices.SortFunc(found, func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}
