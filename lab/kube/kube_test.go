package kube_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/lab"
	"github.com/quorate/quorate/lab/kube"
)

// testTimeout is far above what any test takes; one that hangs is ended by it.
const testTimeout = 8 * time.Minute

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func TestBinaryIsMissing(t *testing.T) {
	t.Setenv(kube.BinaryEnv, "")
	_, err := kube.Start(t.Context(), kube.Config{})
	assert.ErrorContains(t, err, "make kube-apiserver")
	t.Setenv(kube.BinaryEnv, "/nonexistent/from-env")
	_, err = kube.Start(t.Context(), kube.Config{})
	assert.ErrorContains(t, err, "/nonexistent/from-env")
	_, err = kube.Start(t.Context(), kube.Config{Binary: "/nonexistent/kube-apiserver"})
	assert.ErrorContains(t, err, "/nonexistent/kube-apiserver")
}

// A program that is no API server ends, or prints something: the error shows it, and
// nothing stays behind.
func TestStartFailsWithTheLog(t *testing.T) {
	t.Setenv("LC_ALL", "C") // it prints in English
	dir := t.TempDir()
	_, err := kube.Start(within(t), kube.Config{Binary: "ls", Dir: dir})
	assert.ErrorContains(t, err, "exit status")
	assert.ErrorContains(t, err, "option", "what it printed")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

var endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}

const manifest = `
# A role and its binding, in one text.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: reader
rules:
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: reader
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: reader
subjects:
- kind: ServiceAccount
  name: client
  namespace: test
`

// list lists the slices of the namespace "test", over a connection of its own.
func list(ctx context.Context, config *rest.Config) (int, error) {
	config.Timeout = 10 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	all, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return 0, err
	}
	found, err := all.Resource(endpointSlices).Namespace("test").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(found.Items), nil
}

func TestControlPlane(t *testing.T) {
	if os.Getenv(kube.BinaryEnv) == "" {
		t.Skipf("%s names no kube-apiserver: `make kube-test` builds one and runs this", kube.BinaryEnv)
	}
	ctx := within(t)
	begin := time.Now()
	c, err := kube.Start(ctx, kube.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	t.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	require.NoError(t, c.CreateNamespace(ctx, "test"))
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: "test", Name: "one"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
	}
	require.NoError(t, c.Apply(ctx, slice))
	require.NoError(t, c.Apply(ctx, slice), "again")

	// The tests below go on from one another.
	token := ""
	t.Run("roles and tokens", func(t *testing.T) {
		require.NoError(t, c.CreateServiceAccount(ctx, "test", "client"))
		token, err = c.Token(ctx, "test", "client")
		require.NoError(t, err)
		_, err = list(ctx, c.ConfigFor(token))
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.NoError(t, c.ApplyManifest(ctx, "test", []byte(manifest)))
		require.Eventually(t, func() bool {
			n, err := list(ctx, c.ConfigFor(token))
			return err == nil && n == 1
		}, testTimeout, 50*time.Millisecond)
		require.NoError(t, c.Delete(ctx, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), "test", "reader"))
		require.Eventually(t, func() bool {
			_, err := list(ctx, c.ConfigFor(token))
			return apierrors.IsForbidden(err)
		}, testTimeout, 50*time.Millisecond)
		_, err = list(ctx, c.ConfigFor("wrong"))
		require.True(t, apierrors.IsUnauthorized(err), "%v", err)
	})
	t.Run("stopped and continued", func(t *testing.T) {
		require.NoError(t, c.Stop())
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := list(short, c.Admin())
		require.Error(t, err)
		require.NoError(t, c.Continue())
		n, err := list(ctx, c.Admin())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
	t.Run("killed and restarted after a compaction", func(t *testing.T) {
		require.ErrorIs(t, c.Restart(ctx), lab.ErrRunning)
		_, err := c.Compact(ctx)
		require.NoError(t, err)
		require.NoError(t, c.Kill())
		require.NoError(t, c.Kill(), "again")
		require.ErrorIs(t, c.Stop(), lab.ErrNotRunning)
		require.ErrorIs(t, c.Continue(), lab.ErrNotRunning)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = list(short, c.Admin())
		require.Error(t, err)
		begin := time.Now()
		require.NoError(t, c.Restart(ctx, "--min-request-timeout=3"))
		t.Logf("ready again after %v", time.Since(begin).Round(time.Millisecond))
		n, err := list(ctx, c.Admin())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
	t.Run("an old place in the history is gone", func(t *testing.T) {
		config := c.Admin()
		client, err := rest.HTTPClientFor(config)
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		all, err := dynamic.NewForConfigAndClient(config, client)
		require.NoError(t, err)
		w, err := all.Resource(endpointSlices).Namespace("test").Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
		require.NoError(t, err)
		defer w.Stop()
		status, ok := (<-w.ResultChan()).Object.(*metav1.Status)
		require.True(t, ok)
		require.EqualValues(t, 410, status.Code)
	})
	t.Run("closed", func(t *testing.T) {
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Restart(ctx), lab.ErrClosed)
		require.NoError(t, c.Close(), "again")
	})
}
