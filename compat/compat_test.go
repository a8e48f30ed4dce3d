package compat_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/api"
	"github.com/quorate/quorate/compat/internal/shim"
	"github.com/quorate/quorate/compat/internal/source"
)

var findTree = sync.OnceValue(source.Find) // runs the go command

func tree(t *testing.T) source.Tree {
	t.Helper()
	return findTree()
}

// pairs loads the packages once for all tests.
var pairs = sync.OnceValue(func() []source.Pair { return findTree().Pairs() })

// generate renews what is generated here.
const generate = "go generate ./compat/..."

// TestShimIsFresh generates the shim in memory and compares it with what is committed.
func TestShimIsFresh(t *testing.T) {
	tree := tree(t)
	want := shim.Generate(pairs())
	require.NoError(t, fs.WalkDir(os.DirFS(tree.Shim()), ".", func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".go" && want[name] == nil {
			t.Errorf("compat/clientv3/%s is left over: remove it", name)
		}
		return err
	}))
	for name, content := range want {
		requireFresh(t, "clientv3/"+name, string(content))
	}
}

// TestAPIIsTheOfficialOne compares the API of the shim with the official client's.
func TestAPIIsTheOfficialOne(t *testing.T) {
	reports := api.Check(tree(t), pairs())
	t.Log("\n" + api.Table(reports))
	var identifiers int
	for _, r := range reports {
		assert.Empty(t, r.Missing, r.Path)
		assert.Empty(t, r.Incompatible, r.Path)
		t.Log(r.String())
		identifiers += r.Identifiers
	}
	require.Greater(t, identifiers, 270, "the official client exports about 280 identifiers: the check looks at too few")
	requireFresh(t, "additions.md", api.Page(reports))
}

// requireFresh compares a generated file with the committed one, which -update renews, and shows the first line that differs.
func requireFresh(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err, "run %s in the root", generate)
	if want == string(got) {
		return
	}
	old := strings.Split(string(got), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(old) || old[i] != line {
			t.Fatalf("compat/%s is stale from line %d, which should be %q: run %s in the root", name, i+1, line, generate)
		}
	}
	t.Fatalf("compat/%s is stale, it is too long: run %s in the root", name, generate)
}

// goCommand runs the go command in this directory outside the workspace, and returns what it printed.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = source.Environ()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
	return string(out)
}
