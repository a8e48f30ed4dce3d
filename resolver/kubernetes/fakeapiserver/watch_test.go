package fakeapiserver_test

import (
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
	limit := int64(1)
	byClient := open(t, c, metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: &limit})
	server.SetWatchDuration(10 * time.Millisecond)
	byServer := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	expectEnd(t, byServer)
	expectEnd(t, byClient)
	require.Eventually(t, func() bool { return server.Watches() == 0 }, testTimeout, tick)
}

func TestWatchRefusesNonsense(t *testing.T) {
	server, client := start(t)
	c := client.EndpointSlices("shop")
	options := streamed()
	options.ResourceVersionMatch = ""
	_, err := c.Watch(grpctest.Within(t, testTimeout), options)
	assert.True(t, apierrors.IsInvalid(err), err)
	for _, version := range []string{"x", "-1"} {
		_, err = c.Watch(grpctest.Within(t, testTimeout), metav1.ListOptions{ResourceVersion: version})
		assert.True(t, apierrors.IsBadRequest(err), err)
	}
	_, err = c.Watch(grpctest.Within(t, testTimeout), metav1.ListOptions{LabelSelector: "a=(b"})
	assert.True(t, apierrors.IsBadRequest(err), err)
	assert.Zero(t, server.Watches())
}
