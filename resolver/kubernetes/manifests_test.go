package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifest is the schema of the files.
type manifest struct {
	rbacv1.ClusterRole `json:",inline"`
	Subjects           []rbacv1.Subject `json:"subjects"`
	RoleRef            rbacv1.RoleRef   `json:"roleRef"`
}

func readManifests(t *testing.T, file string) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("manifests", file))
	require.NoError(t, err)
	byKind := make(map[string]manifest)
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return byKind
		}
		require.NoError(t, err)
		var m manifest
		require.NoError(t, yaml.UnmarshalStrict(document, &m))
		byKind[m.Kind] = m
	}
}

func TestManifests(t *testing.T) {
	for file, kinds := range map[string][2]string{
		"role.yaml":        {"Role", "RoleBinding"},
		"clusterrole.yaml": {"ClusterRole", "ClusterRoleBinding"},
	} {
		m := readManifests(t, file)
		require.Len(t, m, 3, file)
		account, role, binding := m["ServiceAccount"], m[kinds[0]], m[kinds[1]]
		assert.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kinds[0], Name: role.Name}, binding.RoleRef, file)
		assert.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}, binding.Subjects, file)
		assert.Equal(t, []rbacv1.PolicyRule{{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"watch"},
		}}, role.Rules, file)
	}
}
