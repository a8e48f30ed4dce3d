package fakeapiserver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestObjects(t *testing.T) {
	server, _ := start(t)
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

	assert.Equal(t, created.UID, updated.UID)

	got, err := server.Get("shop", "a")
	require.NoError(t, err)
	assert.Equal(t, updated, got)
	got.Labels["x"] = "changed by its reader"
	again, err := server.Get("shop", "a")
	require.NoError(t, err)
	assert.Empty(t, again.Labels["x"])

	require.NoError(t, server.Delete("shop", "a"))
	assert.True(t, apierrors.IsNotFound(server.Delete("shop", "a")))
	_, err = server.Get("shop", "a")
	assert.True(t, apierrors.IsNotFound(err))
	_, err = server.Update(slice("a"))
	assert.True(t, apierrors.IsNotFound(err))
}

func TestReadOverHTTP(t *testing.T) {
	server, client := start(t, slice("a", "users"), slice("b", "users"), slice("c", "others"))
	c := client.EndpointSlices("shop")
	ctx := grpctest.Within(t, testTimeout)
	got, err := c.Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	stored, err := server.Get("shop", "a")
	require.NoError(t, err)
	assert.Equal(t, stored.UID, got.UID)

	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=users"})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	assert.Equal(t, "a", list.Items[0].Name)
	assert.Equal(t, "4", list.ResourceVersion)
	everywhere, err := client.EndpointSlices("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, everywhere.Items, 3)
	_, err = c.List(ctx, metav1.ListOptions{LabelSelector: "a=(b"})
	assert.True(t, apierrors.IsBadRequest(err), err)

	require.NoError(t, server.Delete("shop", "a"))
	_, err = c.Get(ctx, "a", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)
	assert.Equal(t, 3, server.Count("list"))
	last := server.Requests()[len(server.Requests())-1]
	assert.Equal(t, []any{"get", "shop", "a", 404}, []any{last.Verb, last.Namespace, last.Name, last.Code})
}
