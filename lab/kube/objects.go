package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// fieldManager owns all applied fields.
const fieldManager = "quorate-lab"

// clusterKinds are the kinds in manifests that are in no namespace.
var clusterKinds = []string{"ClusterRole", "ClusterRoleBinding", "Namespace"}

// CreateNamespace makes a namespace, if it does not exist. Nothing fills it, and
// nothing but Close removes it.
func (c *ControlPlane) CreateNamespace(ctx context.Context, name string) error {
	_, err := c.core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("kube: namespace %s: %w", name, err)
	}
	return nil
}

// Apply creates an object, or changes the existing one to it, by one PATCH (a
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
		if object.GetNamespace() == "" && !slices.Contains(clusterKinds, object.GetKind()) {
			object.SetNamespace(namespace)
		}
		if err := c.apply(ctx, &object); err != nil {
			return err
		}
	}
}

// Delete deletes one object. It fails if the object does not exist. Deleting a service account invalidates its tokens, even
// for a later account of the same name, but the API server caches for about ten seconds that they were valid.
func (c *ControlPlane) Delete(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error {
	if err := c.resource(kind, namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("kube: delete %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return nil
}

func (c *ControlPlane) apply(ctx context.Context, object *unstructured.Unstructured) error {
	// The fields that the server sets, which an apply must not contain.
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

// Token returns a new token of a service account, as a pod's kubelet gets it. It is
// valid for an hour.
func (c *ControlPlane) Token(ctx context.Context, namespace, account string) (string, error) {
	reply, err := c.core.ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("kube: token of %s/%s: %w", namespace, account, err)
	}
	return reply.Status.Token, nil
}

// compactKey is outside of what the API server keeps in etcd.
const compactKey = "quorate-lab/compact"

// Compact compacts the history of etcd, and returns the revision up to which it did.
// That is later than everything that clients have seen, because Compact makes a change
// of its own. Revisions are the resource versions of the API server. A running API
// server continues to serve watches from its cache; one that is started after Compact
// answers 410 to watches that resume.
func (c *ControlPlane) Compact(ctx context.Context) (int64, error) {
	kv := pb.NewKVClient(c.etcd.Members()[0].Conn())
	now, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(compactKey)})
	if err != nil {
		return 0, fmt.Errorf("kube: compact: %w", err)
	}
	revision := now.GetHeader().GetRevision()
	if _, err := kv.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true}); err != nil {
		return 0, fmt.Errorf("kube: compact to %d: %w", revision, err)
	}
	return revision, nil
}
