package retry

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const rpctypesPath = "go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

// declaredErrors reads the texts of the ErrGRPC… variables from the source of the released
// rpctypes, since reflection cannot enumerate a package's variables.
func declaredErrors(t *testing.T) map[string]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", rpctypesPath).Output()
	require.NoError(t, err)
	pkg, err := build.ImportDir(strings.TrimSpace(string(dir)), 0)
	require.NoError(t, err)
	declared := make(map[string]string)
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, ident := range spec.Names {
				if !strings.HasPrefix(ident.Name, "ErrGRPC") {
					continue
				}
				if _, alias := spec.Values[i].(*ast.Ident); !alias {
					declared[ident.Name] = declaredText(t, ident.Name, spec.Values[i])
				}
			}
			return false
		})
	}
	require.Greater(t, len(declared), 60, "the source was not understood")
	return declared
}

func declaredText(t *testing.T, name string, value ast.Expr) string {
	t.Helper()
	call, ok := value.(*ast.CallExpr)
	require.True(t, ok, "%s is neither an alias nor made by a call", name)
	text, ok := call.Args[1].(*ast.BasicLit)
	require.True(t, ok, "%s: the message is no literal", name)
	message, err := strconv.Unquote(text.Value)
	require.NoError(t, err)
	return message
}

func TestServerErrorsAreExactlyThoseOfTheRelease(t *testing.T) {
	declared := declaredErrors(t)
	inTable := make(map[string]string)
	for _, r := range ServerErrors() {
		if r.Name != "" {
			require.NotContains(t, inTable, r.Name, "listed twice")
			inTable[r.Name] = r.Message
		}
	}
	assert.Equal(t, declared, inTable)
}

func TestServerErrorsAreWellFormed(t *testing.T) {
	messages := make(map[string]bool)
	for _, r := range ServerErrors() {
		assert.NotEmpty(t, r.Reason, r.Message)
		assert.False(t, r.Prefix, r.Message)
		assert.NotContains(t, []Class{OK, NotSent, Ended, Closed}, r.Class, r.Message)
		assert.False(t, messages[r.Message], "%q is listed twice", r.Message)
		messages[r.Message] = true
	}
}
