//go:build experiment

package kuberesolver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/lab/kube"
)

// real is a kube-apiserver over etcd, which all cases share, each in a namespace of its
// own.
type real struct{ plane *kube.ControlPlane }

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
			t.Log(plane.Server().LogTail())
		}
		assert.NoError(t, plane.Close())
	})
	return &real{plane: plane}
}

// repair continues or restarts the server if a case has left it stopped or dead.
func (r *real) repair(t *testing.T) {
	if r.plane.Server().Continue() != nil {
		assert.NoError(t, r.plane.Server().Restart(context.WithoutCancel(t.Context())))
	}
}

// admit makes a namespace with a service account that may do there what the resolver's manifest allows, and returns the
// configuration of a client.
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
	r.awaitAnswer(t, token, namespace, http.StatusOK)
	return r.plane.ConfigFor(token)
}

// hangUp resets the connections of clients.
func (r *real) hangUp() {
	r.plane.Link().Cut()
	r.plane.Link().Heal()
}

// restart starts a server that was killed.
func (r *real) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, r.plane.Server().Restart(within(t, testTimeout)))
}

// revoke takes away the client's role; it returns when that is in force.
func (s *scene) revoke(t *testing.T) {
	binding := rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
	require.NoError(t, s.plane.Delete(within(t, testTimeout), binding, s.namespace, "grpc-client-endpointslice-watcher"))
	s.awaitAnswer(t, s.config.BearerToken, s.namespace, http.StatusForbidden)
}

// grant gives the role back; it returns when that is in force.
func (s *scene) grant(t *testing.T) {
	require.NoError(t, s.plane.ApplyManifest(within(t, testTimeout), s.namespace, manifest(t, roleManifest)))
	s.awaitAnswer(t, s.config.BearerToken, s.namespace, http.StatusOK)
}

// awaitAnswer waits until a watch with a token is answered with a status.
func (r *real) awaitAnswer(t *testing.T, token, namespace string, code int) {
	t.Helper()
	config := r.plane.ConfigFor(token)
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

const (
	// roleManifest is for clients of one namespace, clusterManifest for those of all.
	roleManifest    = "role.yaml"
	clusterManifest = "clusterrole.yaml"
	// account is the service account in both, and accountHome its namespace in the latter.
	account     = "grpc-client"
	accountHome = "default"
)

// manifest returns the text of a manifest as the users of the resolver apply it.
func manifest(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../resolver/kubernetes/manifests", name))
	require.NoError(t, err)
	return text
}

// allowedVerbs returns what the roles of a manifest allow, and fails if that is about
// anything but slices.
func allowedVerbs(t *testing.T, name string) []string {
	t.Helper()
	text := manifest(t, name)
	var verbs []string
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		var role rbacv1.Role // or any other kind: then it has no rules
		err := documents.Decode(&role)
		if errors.Is(err, io.EOF) {
			return verbs
		}
		require.NoError(t, err)
		for _, rule := range role.Rules {
			require.Equal(t, []string{"discovery.k8s.io"}, rule.APIGroups)
			require.Equal(t, []string{"endpointslices"}, rule.Resources)
			verbs = append(verbs, rule.Verbs...)
		}
	}
}
