package api

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

// TestRealDifferencesAreFound spoils the source of our packages as it is read, so that the whole way of a comparison
// has to carry the differences: through the new import paths, and across packages.
func TestRealDifferencesAreFound(t *testing.T) {
	pairs := source.Find().Pairs()
	for _, pair := range pairs {
		changeAPI(pair.Quorate)
	}
	renamed := source.AsOfficial(pairs)
	got := make(map[string][]string)
	for _, pair := range pairs {
		if r := Compare(pair.Official, renamed[source.Relative(pair.Official.Path())]); !r.Passes() {
			got[r.Path] = append(r.Missing, r.Incompatible...)
		}
	}
	require.Equal(t, map[string][]string{
		source.Official:                  {"WithPrefix: removed"},
		source.Official + "/concurrency": {"(*Session).Orphan: removed"},
		source.Official + "/kubernetes": {
			"New: changed from func(go.etcd.io/etcd/client/v3.Config) (*Client, error) to func(go.etcd.io/etcd/client/v3.AuthConfig) (*Client, error)",
		},
	}, got)
}

// changeAPI renames a function and a method, and changes a parameter to a type of another package.
func changeAPI(pkg *source.Package) {
	if pkg == nil {
		return
	}
	for _, file := range pkg.Files {
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok:
			case function.Recv == nil && pkg.Name() == "clientv3" && function.Name.Name == "WithPrefix":
				function.Name.Name = "withPrefix"
			case function.Recv != nil && pkg.Name() == "concurrency" && function.Name.Name == "Orphan":
				function.Name.Name = "Abandon"
			case function.Recv == nil && pkg.Name() == "kubernetes" && function.Name.Name == "New":
				function.Type.Params.List[0].Type.(*ast.SelectorExpr).Sel.Name = "AuthConfig"
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

func TestDeclarations(t *testing.T) {
	require.Equal(t, []string{
		"const Limit untyped int = 10",
		"func (*Client).Close() error",
		"func New(name string, opts ...Option) (*Client, error)",
		"type Base struct",
		"type Client struct",
		"type Client struct, field KV KV",
		"type Client struct, field Name string",
		"type Client struct, field Size int",
		"type Closed interface",
		"type Closed interface, hidden()",
		"type ID int32",
		"type KV interface",
		"type KV interface, Get(ctx context.Context, key string, opts ...Option) (*Response, error)",
		"type Lock struct",
		"type Option func(*options)",
		"type Response struct",
		"type Response struct, field Keys []string",
		"var Err error",
	}, Declarations(check(t, official)))
	require.Equal(t, []string{
		"func (*Set[T]).Add(T)",
		"func Of[T any](...T) *Set[int]",
		"type Alias = Set[int]",
		"type Set[T comparable] struct",
		"type Set[T comparable] struct, field All map[T]bool",
	}, Declarations(check(t, `package p

type Set[T comparable] struct{ All map[T]bool }

func (s *Set[T]) Add(T) {}

func Of[T any](...T) *Set[int] { return nil }

type Alias = Set[int]
`)))
}
