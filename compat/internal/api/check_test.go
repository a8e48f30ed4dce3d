package api

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

// TestRealDifferencesAreFound spoils the source of our packages as it is read, so that the whole way of a comparison
// has to carry the difference: through the new import paths, and across packages.
func TestRealDifferencesAreFound(t *testing.T) {
	tree, err := source.Find()
	require.NoError(t, err)
	tests := map[string]struct {
		spoil func(name string, decl *ast.FuncDecl) // is given every function of every package
		path  string
		want  string
	}{
		"function": {
			path: source.Official,
			spoil: func(_ string, decl *ast.FuncDecl) {
				if decl.Recv == nil && decl.Name.Name == "WithPrefix" {
					decl.Name.Name = "withPrefix"
				}
			},
			want: "WithPrefix: removed",
		},
		"method": {
			path: source.Official + "/concurrency",
			spoil: func(pkg string, decl *ast.FuncDecl) {
				if pkg == "concurrency" && decl.Recv != nil && decl.Name.Name == "Orphan" {
					decl.Name.Name = "Abandon"
				}
			},
			want: "(*Session).Orphan: removed",
		},
		"type of another package": {
			path: source.Official + "/kubernetes",
			spoil: func(pkg string, decl *ast.FuncDecl) {
				if pkg == "kubernetes" && decl.Recv == nil && decl.Name.Name == "New" {
					decl.Type.Params.List[0].Type.(*ast.SelectorExpr).Sel.Name = "AuthConfig"
				}
			},
			want: "New: changed from func(go.etcd.io/etcd/client/v3.Config) (*Client, error) to func(go.etcd.io/etcd/client/v3.AuthConfig) (*Client, error)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pairs, err := tree.Pairs()
			require.NoError(t, err)
			for _, pair := range pairs {
				spoil(pair.Quorate, test.spoil)
			}
			renamed, err := source.AsOfficial(pairs)
			require.NoError(t, err)
			for _, pair := range pairs {
				r := Compare(pair.Official, renamed[source.Relative(pair.Official.Path())])
				if r.Path == test.path {
					require.Equal(t, []string{test.want}, append(r.Missing, r.Incompatible...))
				} else {
					require.True(t, r.Passes(), r.String())
				}
			}
		})
	}
}

func spoil(pkg *source.Package, change func(string, *ast.FuncDecl)) {
	if pkg == nil {
		return
	}
	for _, file := range pkg.Files {
		for _, decl := range file.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok {
				change(pkg.Name(), function)
			}
		}
	}
}

func TestReportsAreReadable(t *testing.T) {
	reports := []Report{
		{Path: source.Official, Identifiers: 9, Missing: []string{"New: removed"}, Added: []string{"Monitor"}},
		{Path: source.Official + "/yaml", Identifiers: 1, Incompatible: []string{"NewConfig: changed"}, Notes: []string{"other order"}},
		{Path: source.Official + "/naming"},
	}
	require.Equal(t, ""+
		"package   identifiers  missing  incompatible  added\n"+
		"clientv3            9        1             0      1\n"+
		"yaml                1        0             1      0\n"+
		"naming              0        0             0      0\n"+
		"all                10        1             1      1\n", Table(reports))
	require.Equal(t, "go.etcd.io/etcd/client/v3/yaml: 1 identifiers, 0 missing, 1 incompatible, 0 added\n"+
		"\tincompatible: NewConfig: changed\n\tnote: other order\n", reports[1].String())
	page := Page(reports)
	require.Contains(t, page, "## clientv3\n\n- `Monitor`\n")
	require.Contains(t, page, "## yaml\n\n- Note: `other order`\n")
	require.NotContains(t, page, "naming")
}

func TestAMissingPackageIsReported(t *testing.T) {
	require.Equal(t, []string{"the whole package"}, Compare(check(t, official), nil).Missing)
}
