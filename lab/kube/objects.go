package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager is the owner of all that is applied.
const fieldManager = "quorate-lab"

var (
	namespaceKind      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	serviceAccountKind = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
)

// clusterKinds are the kinds in manifests that are in no namespace.
var clusterKinds = []string{"ClusterRole", "ClusterRoleBinding", "Namespace"}

// CreateNamespace makes a namespace. Nothing fills it, and nothing but Close removes
// it.
func (c *ControlPlane) CreateNamespace(ctx context.Context, name string) error {
	return c.apply(ctx, newObject(namespaceKind, "", name))
}

// Apply creates an object, or makes it what is given here, by one PATCH (a
// server-side apply). A typed object needs its TypeMeta and, if its kind has one, a
// namespace.
func (c *ControlPlane) Apply(ctx context.Context, object runtime.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("kube: apply: %w", err)
	}
	return c.apply(ctx, &unstructured.Unstructured{Object: fields})
}

// ApplyManifest applies every object of a YAML text as kubectl does: those without a
// namespace in the given one, unless their kind has none.
func (c *ControlPlane) ApplyManifest(ctx context.Context, namespace string, manifest []byte) error {
	return eachObject(manifest, func(object *unstructured.Unstructured) error {
		place(object, namespace)
		return c.apply(ctx, object)
	})
}

// DeleteManifest deletes the objects of a YAML text that are of these kinds, those
// without a namespace from the given one.
func (c *ControlPlane) DeleteManifest(ctx context.Context, namespace string, manifest []byte, kinds ...string) error {
	return eachObject(manifest, func(object *unstructured.Unstructured) error {
		if !slices.Contains(kinds, object.GetKind()) {
			return nil
		}
		place(object, namespace)
		return c.Delete(ctx, object.GroupVersionKind(), object.GetNamespace(), object.GetName())
	})
}

// place gives an object a namespace, if it has and needs one.
func place(object *unstructured.Unstructured, namespace string) {
	if object.GetNamespace() == "" && !slices.Contains(clusterKinds, object.GetKind()) {
		object.SetNamespace(namespace)
	}
}

// Delete deletes one object. That it does not exist is an error.
func (c *ControlPlane) Delete(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error {
	if err := c.resource(kind, namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("kube: delete %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return nil
}

func (c *ControlPlane) apply(ctx context.Context, object *unstructured.Unstructured) error {
	// What the server fills in, and an apply must not hold.
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	kind := object.GroupVersionKind()
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	_, err := c.resource(kind, object.GetNamespace()).Apply(ctx, object.GetName(), object, options)
	if err != nil {
		return fmt.Errorf("kube: apply %s %s/%s: %w", kind.Kind, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// resource returns the client of a kind, in a namespace unless that is empty. The
// resource is the plural that nearly all kinds have, in lower case.
func (c *ControlPlane) resource(kind schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	if namespace == "" {
		return c.admin.Resource(plural)
	}
	return c.admin.Resource(plural).Namespace(namespace)
}

// eachObject calls do for the objects of a YAML text until it returns an error.
func eachObject(manifest []byte, do func(*unstructured.Unstructured) error) error {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest))
	for {
		var object unstructured.Unstructured
		switch err := documents.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("kube: manifest: %w", err)
		case len(object.Object) == 0: // nothing but comments
			continue
		}
		if err := do(&object); err != nil {
			return err
		}
	}
}

func newObject(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	var object unstructured.Unstructured
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return &object
}
