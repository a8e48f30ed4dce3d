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
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

func TestDeny(t *testing.T) {
	server, c := start(t)
	w := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	server.Deny("list", "watch")
	_, err := c.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	assert.ErrorContains(t, err, `cannot list resource "endpointslices" in API group "discovery.k8s.io" in the namespace "shop"`)
	_, err = c.EndpointSlices("").Watch(within(t), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	assert.ErrorContains(t, err, "at the cluster scope")
	create(t, server, slice("a"))
	expect(t, w, watch.Added, "a") // the watch was opened before Deny
	_, err = c.EndpointSlices("shop").Get(within(t), "a", metav1.GetOptions{})
	assert.NoError(t, err)
	server.Deny()
	_, err = c.EndpointSlices("shop").Get(within(t), "a", metav1.GetOptions{})
	assert.True(t, apierrors.IsForbidden(err), err)
	server.Allow("get")
	_, err = c.EndpointSlices("shop").Get(within(t), "a", metav1.GetOptions{})
	assert.NoError(t, err)
	server.Allow()
	_, err = c.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.NoError(t, err)
	assert.Equal(t, 2, server.Count("list"))
}

func TestTokens(t *testing.T) {
	server, anyone := start(t)
	server.SetTokens("one", "two")
	config := server.RESTConfig()
	assert.Equal(t, "one", config.BearerToken)
	_, err := client(t, config).EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.NoError(t, err)
	_, err = anyone.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.True(t, apierrors.IsUnauthorized(err), err)
	server.SetTokens()
	_, err = anyone.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.NoError(t, err)
}

func TestHang(t *testing.T) {
	server, c := start(t)
	w := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	server.Hang()
	create(t, server, slice("a"))
	for _, each := range []*discoveryclient.DiscoveryV1Client{c, client(t, server.RESTConfig())} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := each.EndpointSlices("shop").List(ctx, metav1.ListOptions{})
		cancel()
		assert.ErrorIs(t, err, context.DeadlineExceeded, "old and new connections hang")
	}
	select {
	case e := <-w.ResultChan():
		assert.Fail(t, "an event came through", "%v", e)
	default:
	}
	server.Resume()
	expect(t, w, watch.Added, "a")
}

func TestBreakConnections(t *testing.T) {
	server, c := start(t)
	w := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	require.Equal(t, 1, server.Connections())
	server.BreakConnections()
	drain(t, w)
	_, err := c.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.NoError(t, err)
}

func TestStopAndRestart(t *testing.T) {
	server, c := start(t, slice("a"))
	url := server.URL()
	w := open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	server.Stop()
	server.Stop()
	assert.Zero(t, server.Connections())
	drain(t, w) // then the client has noticed the broken connection
	_, err := c.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.ErrorContains(t, err, "refused")
	create(t, server, slice("b"))
	require.NoError(t, server.Restart())
	require.NoError(t, server.Restart())
	assert.Equal(t, url, server.URL())
	list, err := c.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, list.Items, 2)
}

func TestRotateCA(t *testing.T) {
	server, before := start(t)
	require.NoError(t, server.RotateCA())
	_, err := before.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.ErrorContains(t, err, "certificate")
	_, err = client(t, server.RESTConfig()).EndpointSlices("shop").List(within(t), metav1.ListOptions{})
	assert.NoError(t, err)
}

func TestWait(t *testing.T) {
	server, c := start(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	assert.ErrorIs(t, server.Wait(ctx, "list", 1), context.Canceled)
	done := make(chan error)
	go func() { done <- server.Wait(within(t), "list", 2) }()
	for range 2 {
		_, err := c.EndpointSlices("shop").List(within(t), metav1.ListOptions{})
		require.NoError(t, err)
	}
	assert.NoError(t, <-done)
	assert.Equal(t, "HTTP/2.0", server.Requests()[0].Protocol)
}

func TestCloseWithEverythingOpen(t *testing.T) {
	server, c := start(t)
	open(t, c, metav1.ListOptions{ResourceVersion: "1"})
	server.Hang()
	server.Close()
	server.Close()
	assert.Zero(t, server.Watches())
	assert.Zero(t, server.Connections())
	assert.ErrorContains(t, server.Restart(), "closed")
}
