//go:build experiment

package kuberesolver_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

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
