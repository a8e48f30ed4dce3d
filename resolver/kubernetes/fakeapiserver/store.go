package fakeapiserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
