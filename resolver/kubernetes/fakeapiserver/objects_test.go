package fakeapiserver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestObjects(t *testing.T) {
	server := start(t)
	created, err := server.Create(slice("a", "users"))
	require.NoError(t, err)
	assert.NotEmpty(t, created.UID)
	assert.Equal(t, "2", created.ResourceVersion)
	_, err = server.Create(slice("a"))
	assert.True(t, apierrors.IsAlreadyExists(err), err)
	nameless := slice("")
	_, err = server.Create(nameless)
	assert.True(t, apierrors.IsBadRequest(err), err)

	stale := created.DeepCopy()
	updated, err := server.Update(created)
	require.NoError(t, err)
	assert.Equal(t, "3", updated.ResourceVersion)
	assert.Equal(t, int64(2), updated.Generation)
	_, err = server.Update(stale)
	assert.True(t, apierrors.IsConflict(err), err)

	patched, err := server.Patch("shop", "a", []byte(`{"metadata":{"labels":{"kubernetes.io/service-name":null,"x":"y"}},"endpoints":[{"addresses":["10.0.0.1"]}]}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"x": "y"}, patched.Labels)
	assert.Len(t, patched.Endpoints, 1)
	assert.Equal(t, created.UID, patched.UID)
	for _, bad := range []string{`[`, `[]`, `{"endpoints":3}`} {
		_, err = server.Patch("shop", "a", []byte(bad))
		assert.True(t, apierrors.IsBadRequest(err), err)
	}

	got, err := server.Get("shop", "a")
	require.NoError(t, err)
	assert.Equal(t, patched, got)
	got.Labels["x"] = "changed by its reader"
	again, err := server.Get("shop", "a")
	require.NoError(t, err)
	assert.Equal(t, "y", again.Labels["x"])

	require.NoError(t, server.Delete("shop", "a"))
	assert.True(t, apierrors.IsNotFound(server.Delete("shop", "a")))
	_, err = server.Get("shop", "a")
	assert.True(t, apierrors.IsNotFound(err))
	_, err = server.Update(slice("a"))
	assert.True(t, apierrors.IsNotFound(err))
}

func TestObjectsOverHTTP(t *testing.T) {
	server := start(t)
	c := client(t, server.RESTConfig()).EndpointSlices("shop")
	ctx := within(t)
	created, err := c.Create(ctx, slice("a", "users"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.Create(ctx, slice("a"), metav1.CreateOptions{})
	assert.True(t, apierrors.IsAlreadyExists(err), err)
	updated, err := c.Update(ctx, created, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = c.Update(ctx, created, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsConflict(err), err)
	patched, err := c.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.NotEqual(t, updated.ResourceVersion, patched.ResourceVersion)
	got, err := c.Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, patched, got)

	create(t, server, slice("b", "users"), slice("c", "others"))
	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=users"})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	assert.Equal(t, "a", list.Items[0].Name)
	assert.Equal(t, "6", list.ResourceVersion)
	everywhere, err := client(t, server.RESTConfig()).EndpointSlices("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, everywhere.Items, 3)
	_, err = c.List(ctx, metav1.ListOptions{LabelSelector: "a=(b"})
	assert.True(t, apierrors.IsBadRequest(err), err)

	require.NoError(t, c.Delete(ctx, "a", metav1.DeleteOptions{}))
	_, err = c.Get(ctx, "a", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)
	assert.Equal(t, 2, server.Count("create"))
	assert.Equal(t, 3, server.Count("list"))
	last := server.Requests()[len(server.Requests())-1]
	assert.Equal(t, []any{"get", "shop", "a", 404}, []any{last.Verb, last.Namespace, last.Name, last.Code})
}
