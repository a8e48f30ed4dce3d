package fakeapiserver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestDeny(t *testing.T) {
	server, c := start(t)
	w := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	server.Deny("list", "watch")
	_, err := c.EndpointSlices("shop").List(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	assert.ErrorContains(t, err, `cannot list resource "endpointslices" in API group "discovery.k8s.io" in the namespace "shop"`)
	_, err = c.EndpointSlices("").Watch(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	assert.ErrorContains(t, err, "at the cluster scope")
	create(t, server, slice("a"))
	expect(t, w, watch.Added, "a") // the watch was opened before Deny
	_, err = c.EndpointSlices("shop").Get(grpctest.Within(t, testTimeout), "a", metav1.GetOptions{})
	assert.NoError(t, err)
	server.Deny()
	_, err = c.EndpointSlices("shop").Get(grpctest.Within(t, testTimeout), "a", metav1.GetOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	server.Allow("get")
	_, err = c.EndpointSlices("shop").Get(grpctest.Within(t, testTimeout), "a", metav1.GetOptions{})
	assert.NoError(t, err)
	server.Allow()
	_, err = c.EndpointSlices("shop").List(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.NoError(t, err)
	assert.Equal(t, 2, server.Count("list"))
}

func TestTokens(t *testing.T) {
	server, anyone := start(t)
	server.SetTokens("one", "two")
	config := server.RESTConfig()
	assert.Equal(t, "one", config.BearerToken)
	_, err := client(t, config).EndpointSlices("shop").List(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.NoError(t, err)
	_, err = anyone.EndpointSlices("shop").List(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.True(t, apierrors.IsUnauthorized(err), err)
	server.SetTokens()
	_, err = anyone.EndpointSlices("shop").List(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.NoError(t, err)
}

func TestWait(t *testing.T) {
	server, c := start(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	assert.ErrorIs(t, server.Wait(ctx, "list", 1), context.Canceled)
	done := make(chan error)
	go func() { done <- server.Wait(grpctest.Within(t, testTimeout), "list", 2) }()
	for range 2 {
		_, err := c.EndpointSlices("shop").List(grpctest.Within(t, testTimeout), metav1.ListOptions{})
		require.NoError(t, err)
	}
	assert.NoError(t, <-done)
	assert.Equal(t, "HTTP/2.0", server.Requests()[0].Protocol)
}

func TestCloseWithEverythingOpen(t *testing.T) {
	server, c := start(t)
	open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	require.NoError(t, server.Restart(), "it runs")
	server.Hang()
	server.Close()
	server.Close()
	assert.Zero(t, server.Watches())
	assert.Zero(t, server.Connections())
	assert.ErrorContains(t, server.Restart(), "closed")
}
