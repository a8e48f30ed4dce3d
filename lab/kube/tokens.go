package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var tokenRequestKind = schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}

// CreateServiceAccount makes a service account, which Token gives tokens for.
func (c *ControlPlane) CreateServiceAccount(ctx context.Context, namespace, name string) error {
	return c.apply(ctx, newObject(serviceAccountKind, namespace, name))
}

// DeleteServiceAccount deletes a service account. Its tokens become invalid, also
// for one of the same name that is made afterwards, but the API server remembers
// for about ten seconds that they were valid.
func (c *ControlPlane) DeleteServiceAccount(ctx context.Context, namespace, name string) error {
	return c.Delete(ctx, serviceAccountKind, namespace, name)
}

// Token returns a new token of a service account, as a pod's kubelet gets it. It is
// valid for an hour.
func (c *ControlPlane) Token(ctx context.Context, namespace, account string) (string, error) {
	request := newObject(tokenRequestKind, namespace, account)
	reply, err := c.resource(serviceAccountKind, namespace).Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", fmt.Errorf("kube: token of %s/%s: %w", namespace, account, err)
	}
	token, found, err := unstructured.NestedString(reply.Object, "status", "token")
	if err != nil || !found {
		return "", fmt.Errorf("kube: token of %s/%s: the reply holds none", namespace, account)
	}
	return token, nil
}
