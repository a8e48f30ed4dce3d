package fakeapiserver

import (
	"errors"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Create adds an EndpointSlice, and returns it as it is stored. It needs a name, a namespace,
// and the label kubernetes.io/service-name to belong to a service. The error is an
// AlreadyExists or BadRequest of client-go's errors package.
func (s *Server) Create(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	return s.store.create(slice)
}

// Update replaces an EndpointSlice. The error is NotFound, or Conflict if the given one has a
// resource version that is not the current one.
func (s *Server) Update(slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	return s.store.update(slice)
}

// Delete removes an EndpointSlice. The error is NotFound.
func (s *Server) Delete(namespace, name string) error {
	return s.store.remove(namespace, name)
}

// Get returns an EndpointSlice. The error is NotFound.
func (s *Server) Get(namespace, name string) (*discoveryv1.EndpointSlice, error) {
	return s.store.get(namespace, name)
}

var errConflict = errors.New("the object has been modified; please apply your changes to the latest version and try again")
