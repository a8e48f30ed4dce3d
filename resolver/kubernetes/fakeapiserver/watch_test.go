package fakeapiserver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quorate/quorate/internal/grpctest"
)

func TestStreamedList(t *testing.T) {
	server, c := start(t, slice("b", "users"), slice("a", "users"), slice("c", "others"))
	options := streamed()
	options.LabelSelector = "kubernetes.io/service-name=users"
	w := open(t, c, options)
	expect(t, w, watch.Added, "a")
	expect(t, w, watch.Added, "b")
	end := expect(t, w, watch.Bookmark, "")
	assert.Equal(t, "true", end.Annotations[metav1.InitialEventsAnnotationKey])
	assert.Equal(t, "4", end.ResourceVersion)

	// An object that no longer matches the selector is deleted for the watch.
	relabel := func(name, label string) {
		_, err := server.Update(slice(name, label))
		require.NoError(t, err)
	}
	relabel("a", "users")
	expect(t, w, watch.Modified, "a")
	relabel("a", "others")
	left := expect(t, w, watch.Deleted, "a")
	assert.Equal(t, "users", left.Labels["kubernetes.io/service-name"])
	assert.Equal(t, "6", left.ResourceVersion)
	relabel("c", "users")
	expect(t, w, watch.Added, "c")
	require.NoError(t, server.Delete("shop", "a")) // not seen
	require.NoError(t, server.Delete("shop", "b"))
	gone := expect(t, w, watch.Deleted, "b")
	assert.Equal(t, "9", gone.ResourceVersion)
	assert.Equal(t, 1, server.Watches())
}

func TestWatchGoesOnFromVersion(t *testing.T) {
	server, c := start(t, slice("a"), slice("b"), slice("c"))
	w := open(t, c, metav1.ListOptions{ResourceVersion: "2"})
	expect(t, w, watch.Added, "b")
	expect(t, w, watch.Added, "c")
	server.EndWatches()
	expectEnd(t, w)
	anyVersion := open(t, c, metav1.ListOptions{})
	for _, name := range []string{"a", "b", "c"} {
		expect(t, anyVersion, watch.Added, name)
	}
}

func TestBookmarks(t *testing.T) {
	server, c := start(t)
	server.SetBookmarkInterval(5 * time.Millisecond)
	w := open(t, c, metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true, LabelSelector: "no=match"})
	assert.Equal(t, "1", expect(t, w, watch.Bookmark, "").ResourceVersion)
	create(t, server, slice("a"))
	require.Eventually(t, func() bool { return expect(t, w, watch.Bookmark, "").ResourceVersion == "2" }, testTimeout, tick)
	without := open(t, c, metav1.ListOptions{ResourceVersion: "2"})
	create(t, server, slice("b"))
	expect(t, without, watch.Added, "b")
}

func TestWatchesEnd(t *testing.T) {
	server, c := start(t)
	server.SetWatchDuration(10 * time.Millisecond)
	expectEnd(t, open(t, c, metav1.ListOptions{ResourceVersion: "1"}))
	require.Eventually(t, func() bool { return server.Watches() == 0 }, testTimeout, tick)
}

func TestWatchRefusesNonsense(t *testing.T) {
	server, client := start(t)
	c := client.EndpointSlices("shop")
	for _, version := range []string{"x", "-1"} {
		_, err := c.Watch(grpctest.Within(t, testTimeout), metav1.ListOptions{ResourceVersion: version})
		assert.True(t, apierrors.IsBadRequest(err), err)
	}
	_, err := c.Watch(grpctest.Within(t, testTimeout), metav1.ListOptions{LabelSelector: "a=(b"})
	assert.True(t, apierrors.IsBadRequest(err), err)
	assert.Zero(t, server.Watches())
}

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
	server.Deny()
	server.Allow("list")
	_, err = c.EndpointSlices("shop").Watch(grpctest.Within(t, testTimeout), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
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

func TestStopEndsAHang(t *testing.T) {
	server, c := start(t)
	open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	server.Hang()
	server.Stop()
	require.NoError(t, server.Restart())
	open(t, c, metav1.ListOptions{ResourceVersion: "1"})
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
