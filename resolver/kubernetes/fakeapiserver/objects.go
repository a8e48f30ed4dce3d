package fakeapiserver

import (
	"encoding/json"
	"errors"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	return s.store.modify(slice.Namespace, slice.Name, func(old *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
		if slice.ResourceVersion != "" && slice.ResourceVersion != old.ResourceVersion {
			return nil, apierrors.NewConflict(resource, slice.Name, errConflict)
		}
		return slice.DeepCopy(), nil
	})
}

// Patch changes an EndpointSlice by a JSON merge patch (RFC 7396). The error is NotFound or
// BadRequest.
func (s *Server) Patch(namespace, name string, patch []byte) (*discoveryv1.EndpointSlice, error) {
	return s.store.modify(namespace, name, func(old *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
		return merge(old, patch)
	})
}

// Delete removes an EndpointSlice. The error is NotFound.
func (s *Server) Delete(namespace, name string) error {
	_, err := s.store.remove(namespace, name)
	return err
}

// Get returns an EndpointSlice. The error is NotFound.
func (s *Server) Get(namespace, name string) (*discoveryv1.EndpointSlice, error) {
	return s.store.get(namespace, name)
}

var errConflict = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// merge applies an RFC 7396 merge patch.
func merge(old *discoveryv1.EndpointSlice, patch []byte) (*discoveryv1.EndpointSlice, error) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, apierrors.NewBadRequest("the patch is not a JSON object: " + err.Error())
	}
	raw, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(mergeObjects(document, change)); err != nil {
		return nil, err
	}
	merged := new(discoveryv1.EndpointSlice)
	if err := json.Unmarshal(raw, merged); err != nil {
		return nil, apierrors.NewBadRequest("the patch does not leave an EndpointSlice: " + err.Error())
	}
	return merged, nil
}

func mergeObjects(document, change map[string]any) map[string]any {
	if document == nil {
		document = make(map[string]any)
	}
	for name, value := range change {
		switch value := value.(type) {
		case nil:
			delete(document, name)
		case map[string]any:
			inner, _ := document[name].(map[string]any)
			document[name] = mergeObjects(inner, value)
		default:
			document[name] = value
		}
	}
	return document
}
