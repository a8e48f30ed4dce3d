//go:build experiment

package kuberesolver_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/lab/kube"
)

// shortWatches has an API server end a watch after three to six seconds.
const shortWatches = "--min-request-timeout=3"

// real is a kube-apiserver over etcd, which all cases share, each in a namespace of its
// own.
type real struct {
	plane  *kube.ControlPlane
	tokens string // directory of the clients' tokens
	args   []string
}

// startReal starts the control plane, or skips the test where there is no executable.
func startReal(t *testing.T) *real {
	t.Helper()
	if os.Getenv(kube.BinaryEnv) == "" {
		t.Skipf("%s names no kube-apiserver: `make kube-test` builds one and runs this", kube.BinaryEnv)
	}
	plane, err := kube.Start(t.Context(), kube.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(plane.LogTail())
		}
		assert.NoError(t, plane.Close())
	})
	return &real{plane: plane, tokens: t.TempDir()}
}

// repair continues or restarts the server if a case has left it stopped or changed.
func (r *real) repair(t *testing.T) {
	if r.plane.Continue() == nil && r.args == nil {
		return
	}
	r.args = nil
	assert.NoError(t, r.plane.Kill())
	assert.NoError(t, r.plane.Restart(context.WithoutCancel(t.Context())))
}

func (r *real) tokenFile(namespace string) string { return filepath.Join(r.tokens, namespace) }

// admit makes a namespace with a service account that may do there what the resolver's manifest allows, and returns the
// configuration of a client that reads its token from a file.
func (r *real) admit(t *testing.T, namespace string) *rest.Config {
	t.Cleanup(func() { r.repair(t) })
	require.NoError(t, r.plane.CreateNamespace(within(t, testTimeout), namespace))
	return r.allow(t, namespace, roleManifest)
}

// admitEverywhere does so with the manifest for all namespaces.
func (r *real) admitEverywhere(t *testing.T) *rest.Config {
	require.NoError(t, r.plane.CreateNamespace(within(t, testTimeout), accountHome))
	return r.allow(t, accountHome, clusterManifest)
}

// allow applies a manifest, and returns the configuration of the client that it is for.
func (r *real) allow(t *testing.T, namespace, name string) *rest.Config {
	ctx := within(t, testTimeout)
	require.NoError(t, r.plane.ApplyManifest(ctx, namespace, manifest(t, name)))
	token, err := r.plane.Token(ctx, namespace, account)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.tokenFile(namespace), []byte(token), 0o600))
	r.awaitAnswer(t, namespace, http.StatusOK)
	return r.plane.ConfigForFile(r.tokenFile(namespace))
}

// hangUp resets the connections of clients.
func (r *real) hangUp() {
	r.plane.Link().Cut()
	r.plane.Link().Heal()
}

// restart starts a server that was killed. Every watch ends within seconds if they are short.
func (r *real) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, r.plane.Restart(within(t, testTimeout), r.args...))
}

// revoke takes away the client's role; it returns when that is in force.
func (r *real) revoke(t *testing.T, namespace string) {
	require.NoError(t, r.plane.Delete(within(t, testTimeout), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), namespace, "grpc-client-endpointslice-watcher"))
	r.awaitAnswer(t, namespace, http.StatusForbidden)
}

// grant gives the role back; it returns when that is in force.
func (r *real) grant(t *testing.T, namespace string) {
	require.NoError(t, r.plane.ApplyManifest(within(t, testTimeout), namespace, manifest(t, roleManifest)))
	r.awaitAnswer(t, namespace, http.StatusOK)
}

// rotate makes a new token and returns when the old one is refused; publish writes the new one to the client's file, by one
// rename, as a kubelet does.
func (r *real) rotate(t *testing.T, namespace string) (publish func()) {
	ctx := within(t, testTimeout)
	require.NoError(t, r.plane.Delete(ctx, corev1.SchemeGroupVersion.WithKind("ServiceAccount"), namespace, account))
	require.NoError(t, r.plane.CreateServiceAccount(ctx, namespace, account))
	token, err := r.plane.Token(ctx, namespace, account)
	require.NoError(t, err)
	r.awaitAnswer(t, namespace, http.StatusUnauthorized)
	return func() {
		path := r.tokenFile(namespace)
		require.NoError(t, os.WriteFile(path+".new", []byte(token), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
		r.awaitAnswer(t, namespace, http.StatusOK)
	}
}

// awaitAnswer waits until a watch with the token in the client's file is answered with a
// status.
func (r *real) awaitAnswer(t *testing.T, namespace string, code int) {
	t.Helper()
	token, err := os.ReadFile(r.tokenFile(namespace))
	require.NoError(t, err)
	config := r.plane.ConfigFor(string(token))
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	url := config.Host + "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices?watch=true&timeoutSeconds=1"
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(within(t, testTimeout), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == code
	}, testTimeout, pollInterval, "the token of %s is answered with %d", namespace, code)
}
