package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/internal/fatal"
)

func TestPaths(t *testing.T) {
	for ours, official := range map[string]string{
		Quorate:                                 Official,
		Quorate + "/yaml":                       Official + "/yaml",
		Quorate + "/naming/endpoints":           Official + "/naming/endpoints",
		"github.com/quorate/quorate/clientv3er": "github.com/quorate/quorate/clientv3er",
		"go.etcd.io/etcd/api/v3/etcdserverpb":   "go.etcd.io/etcd/api/v3/etcdserverpb",
	} {
		require.Equal(t, official, ToOfficial(ours))
		require.Equal(t, Relative(ours) != ours, official != ours)
	}
	require.Equal(t, "naming/endpoints", Relative(Official+"/naming/endpoints"))
	require.Empty(t, Relative(Official))
}

func TestFindLeadsToTheCheckout(t *testing.T) {
	tree := Find()
	require.FileExists(t, filepath.Join(tree.Compat(), "go.mod"))
	require.FileExists(t, filepath.Join(tree.Shim(), "go.mod"))
}

// TestEveryProblemIsNamed asks for packages that are not there, or do not compile.
func TestEveryProblemIsNamed(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o644))
	}
	write("go.mod", "module github.com/quorate/quorate\n\ngo 1.26.0\n")
	write("compat/go.mod", "module github.com/quorate/quorate/compat\n\ngo 1.26.0\n\nrequire github.com/quorate/quorate v0.2.0\n\nreplace github.com/quorate/quorate => ../\n")
	write("clientv3/broken/broken.go", "package broken\n\nvar X = undefined\n")
	err := fatal.Catch(func() { Tree{Root: root}.quorate([]string{Quorate + "/absent", Quorate + "/broken"}) })
	require.ErrorContains(t, err, "package "+Quorate+"/absent is missing")
	require.ErrorContains(t, err, "package "+Quorate+"/broken does not compile")
	require.ErrorContains(t, err, "undefined: undefined")
	err = fatal.Catch(func() { Tree{Root: filepath.Join(root, "elsewhere")}.official() })
	require.ErrorContains(t, err, "loading go.etcd.io/etcd/client/v3/...")
}
