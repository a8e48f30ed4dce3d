package fakeapiserver_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/grpctest"
	"github.com/quorate/quorate/resolver/kubernetes/fakeapiserver"
)

func TestObjects(t *testing.T) {
	server, client := start(t, slice("a", "users"), slice("b", "users"), slice("c", "others"))
	c := client.EndpointSlices("shop")
	ctx := grpctest.Within(t, testTimeout)
	_, err := server.Create(slice("a"))
	assert.True(t, apierrors.IsAlreadyExists(err), err)
	changed := slice("a", "users")
	changed.Annotations = map[string]string{"x": "y"}
	updated, err := server.Update(changed)
	require.NoError(t, err)
	assert.Equal(t, "5", updated.ResourceVersion)
	updated.Annotations["x"] = "changed by its reader"

	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=users"})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	assert.Equal(t, "a", list.Items[0].Name)
	assert.Equal(t, "y", list.Items[0].Annotations["x"])
	assert.Equal(t, "5", list.ResourceVersion)
	everywhere, err := client.EndpointSlices("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, everywhere.Items, 3)
	_, err = c.List(ctx, metav1.ListOptions{LabelSelector: "a=(b"})
	assert.True(t, apierrors.IsBadRequest(err), err)
	_, err = c.Get(ctx, "a", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)

	require.NoError(t, server.Delete("shop", "a"))
	assert.True(t, apierrors.IsNotFound(server.Delete("shop", "a")))
	_, err = server.Update(slice("a"))
	assert.True(t, apierrors.IsNotFound(err))
	assert.Equal(t, "shop", server.Requests()[0].Namespace)
	assert.Equal(t, http.StatusBadRequest, server.Requests()[2].Code)
}

const (
	testTimeout = 5 * time.Minute
	tick        = 5 * time.Millisecond
)

// start returns a server with these objects, and a client of it.
func start(t *testing.T, slices ...*discoveryv1.EndpointSlice) (*fakeapiserver.Server, *discoveryclient.DiscoveryV1Client) {
	t.Helper()
	server, err := fakeapiserver.Start()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	create(t, server, slices...)
	return server, client(t, server.RESTConfig())
}

// client returns a client of client-go whose transport is closed at the end of the test.
func client(t *testing.T, config *rest.Config) *discoveryclient.DiscoveryV1Client {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	authorized, err := rest.HTTPWrappersForConfig(config, transport)
	require.NoError(t, err)
	c, err := discoveryclient.NewForConfigAndClient(config, &http.Client{Transport: authorized})
	require.NoError(t, err)
	return c
}

func slice(name string, labels ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{}}, AddressType: discoveryv1.AddressTypeIPv4}
	for _, label := range labels {
		s.Labels[discoveryv1.LabelServiceName] = label
	}
	return s
}

func create(t *testing.T, server *fakeapiserver.Server, slices ...*discoveryv1.EndpointSlice) {
	t.Helper()
	for _, s := range slices {
		_, err := server.Create(s)
		require.NoError(t, err)
	}
}

// open opens a watch that ends with the test.
func open(t *testing.T, c *discoveryclient.DiscoveryV1Client, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := c.EndpointSlices("shop").Watch(grpctest.Within(t, testTimeout), options)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// next returns the next event, or false if the watch has ended.
func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		return e, ok
	case <-time.After(testTimeout):
		require.Fail(t, "no event")
		return watch.Event{}, false
	}
}

// expect takes the next event, and checks its type and its object's name.
func expect(t *testing.T, w watch.Interface, kind watch.EventType, name string) *discoveryv1.EndpointSlice {
	t.Helper()
	e, ok := next(t, w)
	require.True(t, ok, "the watch has ended")
	require.Equal(t, kind, e.Type, "%v", e.Object)
	object, ok := e.Object.(*discoveryv1.EndpointSlice)
	require.True(t, ok, "%T", e.Object)
	require.Equal(t, name, object.Name)
	return object
}

// expectEnd fails if there is another event.
func expectEnd(t *testing.T, w watch.Interface) {
	t.Helper()
	e, ok := next(t, w)
	require.False(t, ok, "%v", e)
}

func streamed() metav1.ListOptions {
	yes := true
	return metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
