package fakeapiserver

import (
	"errors"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Create adds an EndpointSlice, and returns it as it is stored. It needs a name, a namespace,
// and the label kubernetes.io/service-name to belong to a service. The error is an
// AlreadyExists or BadRequest of client-go's errors package.
func (s *Server) Create(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	object := slice.DeepCopy()
	if object.Name == "" || object.Namespace == "" {
		return nil, apierrors.NewBadRequest("an EndpointSlice needs a name and a namespace")
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.objects[key{object.Namespace, object.Name}] != nil {
		return nil, apierrors.NewAlreadyExists(resource, object.Name)
	}
	object.TypeMeta = metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"}
	object.UID = uuid.NewUUID()
	object.CreationTimestamp = metav1.Now()
	object.Generation = 1
	s.store.apply(nil, object)
	return object.DeepCopy(), nil
}

var errConflict = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// Update replaces an EndpointSlice. The error is NotFound, or Conflict if the given one has a
// resource version that is not the current one.
func (s *Server) Update(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	object := slice.DeepCopy()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	old := s.store.objects[key{object.Namespace, object.Name}]
	if old == nil {
		return nil, apierrors.NewNotFound(resource, object.Name)
	}
	if object.ResourceVersion != "" && object.ResourceVersion != old.ResourceVersion {
		return nil, apierrors.NewConflict(resource, object.Name, errConflict)
	}
	object.TypeMeta, object.UID, object.CreationTimestamp = old.TypeMeta, old.UID, old.CreationTimestamp
	object.Generation = old.Generation + 1
	s.store.apply(old, object)
	return object.DeepCopy(), nil
}

// Delete removes an EndpointSlice. The error is NotFound.
func (s *Server) Delete(namespace, name string) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	old := s.store.objects[key{namespace, name}]
	if old == nil {
		return apierrors.NewNotFound(resource, name)
	}
	s.store.apply(old, nil)
	return nil
}

// Get returns an EndpointSlice. The error is NotFound.
func (s *Server) Get(namespace, name string) (*discoveryv1.EndpointSlice, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if object := s.store.objects[key{namespace, name}]; object != nil {
		return object.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}
