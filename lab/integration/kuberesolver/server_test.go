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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/lab/kube"
)

// apiServer is a kube-apiserver over etcd. All cases share it; each has its own namespace.
type apiServer struct {
	plane *kube.ControlPlane
	core  *core.CoreV1Client
	admin dynamic.Interface
}

// startAPIServer starts the control plane, or skips the test where there is no executable.
func startAPIServer(t *testing.T) *apiServer {
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
	r := &apiServer{plane: plane}
	config, client := plane.Direct()
	r.core, err = core.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	r.admin, err = dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return r
}

// repair continues or restarts the server if a case has left it stopped or dead.
func (r *apiServer) repair(t *testing.T) {
	if r.plane.Server().Continue() != nil {
		assert.NoError(t, r.plane.Server().Restart(context.WithoutCancel(t.Context())))
	}
}

// admit makes a namespace with a service account that may do there what the resolver's manifest allows, and returns the
// configuration of a client.
func (r *apiServer) admit(t *testing.T, namespace string) *rest.Config {
	t.Cleanup(func() { r.repair(t) })
	r.createNamespace(t, namespace)
	return r.allow(t, namespace, roleManifest)
}

// admitEverywhere does so with the manifest for all namespaces.
func (r *apiServer) admitEverywhere(t *testing.T) *rest.Config {
	r.createNamespace(t, accountHome)
	return r.allow(t, accountHome, clusterManifest)
}

// createNamespace makes a namespace, if it does not exist.
func (r *apiServer) createNamespace(t *testing.T, name string) {
	_, err := r.core.Namespaces().Create(within(t, testTimeout), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

// allow applies a manifest, and returns the configuration of the client that it is for.
func (r *apiServer) allow(t *testing.T, namespace, name string) *rest.Config {
	r.applyManifest(t, namespace, name)
	reply, err := r.core.ServiceAccounts(namespace).CreateToken(within(t, testTimeout), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.awaitAnswer(t, reply.Status.Token, namespace, http.StatusOK)
	return r.plane.ConfigFor(reply.Status.Token)
}

// applyManifest applies the objects of a manifest: those without a namespace in the given one, unless their kind has none.
func (r *apiServer) applyManifest(t *testing.T, namespace, name string) {
	t.Helper()
	text := manifest(t, name)
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		var object unstructured.Unstructured
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if len(object.Object) == 0 { // nothing but comments
			continue
		}
		if object.GetNamespace() == "" && !strings.HasPrefix(object.GetKind(), "Cluster") {
			object.SetNamespace(namespace)
		}
		r.apply(t, &object)
	}
}

// apply creates an object, or changes the existing one to it, by one PATCH (a server-side apply).
func (r *apiServer) apply(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp") // the server sets it
	_, err := r.resource(object.GroupVersionKind(), object.GetNamespace()).
		Apply(within(t, testTimeout), object.GetName(), object, metav1.ApplyOptions{FieldManager: "lab", Force: true})
	require.NoError(t, err)
}

// resource returns the client of a kind, in a namespace unless that is empty. The resource is the plural that nearly all kinds
// have, in lower case.
func (r *apiServer) resource(kind schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	if namespace == "" {
		return r.admin.Resource(plural)
	}
	return r.admin.Resource(plural).Namespace(namespace)
}

// compact compacts the history of etcd, beyond everything that clients have seen: it makes a change of its own. An API server that
// is started afterwards answers 410 to watches that resume.
func (r *apiServer) compact(t *testing.T) {
	kv := pb.NewKVClient(r.plane.Etcd().Members()[0].Conn())
	now, err := kv.Put(within(t, testTimeout), &pb.PutRequest{Key: []byte("compact")})
	require.NoError(t, err)
	_, err = kv.Compact(within(t, testTimeout), &pb.CompactionRequest{Revision: now.Header.Revision, Physical: true})
	require.NoError(t, err)
}

// hangUp resets the connections of clients.
func (r *apiServer) hangUp() {
	r.plane.Link().Cut()
	r.plane.Link().Heal()
}

// restart starts a server that was killed.
func (r *apiServer) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, r.plane.Server().Restart(within(t, testTimeout)))
}

// revoke takes away the client's role; it returns when that is in force.
func (s *scene) revoke(t *testing.T) {
	bindings := s.resource(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), s.namespace)
	require.NoError(t, bindings.Delete(within(t, testTimeout), "grpc-client-endpointslice-watcher", metav1.DeleteOptions{}))
	s.awaitAnswer(t, s.config.BearerToken, s.namespace, http.StatusForbidden)
}

// grant gives the role back; it returns when that is in force.
func (s *scene) grant(t *testing.T) {
	s.applyManifest(t, s.namespace, roleManifest)
	s.awaitAnswer(t, s.config.BearerToken, s.namespace, http.StatusOK)
}

// awaitAnswer waits until a watch with a token is answered with a status.
func (r *apiServer) awaitAnswer(t *testing.T, token, namespace string, code int) {
	t.Helper()
	config := r.plane.ConfigFor(token)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	url := config.Host + "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices?watch=true&timeoutSeconds=1"
	req, err := http.NewRequestWithContext(within(t, testTimeout), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
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
