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
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
)

const rpctypesPath = "go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

// codeConstants maps the names of the constants in package codes, as they
// stand in source, to their values. Code.String returns the same names.
func codeConstants() map[string]codes.Code {
	byName := make(map[string]codes.Code)
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		byName[c.String()] = c
	}
	return byName
}

type declaredError struct {
	code    codes.Code
	message string
}

// declaredErrors reads the ErrGRPC… variables from the source of the released
// rpctypes, since reflection cannot enumerate a package's variables.
func declaredErrors(t *testing.T) map[string]declaredError {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", rpctypesPath).Output()
	require.NoError(t, err)
	pkg, err := build.ImportDir(strings.TrimSpace(string(dir)), 0)
	require.NoError(t, err)

	declared := make(map[string]declaredError)
	aliases := make(map[string]string)
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, ident := range spec.Names {
				if strings.HasPrefix(ident.Name, "ErrGRPC") {
					readDeclaration(t, ident.Name, spec.Values[i], declared, aliases)
				}
			}
			return false
		})
	}
	for alias, original := range aliases {
		require.Contains(t, declared, original, "target of the alias %s", alias)
	}
	require.Greater(t, len(declared), 60, "the source was not understood")
	return declared
}

func readDeclaration(t *testing.T, name string, value ast.Expr, declared map[string]declaredError, aliases map[string]string) {
	t.Helper()
	if original, ok := value.(*ast.Ident); ok {
		aliases[name] = original.Name
		return
	}
	call, ok := value.(*ast.CallExpr)
	require.True(t, ok, "%s is neither an alias nor made by a call", name)
	code, ok := call.Args[0].(*ast.SelectorExpr)
	require.True(t, ok, "%s: the code is no constant", name)
	text, ok := call.Args[1].(*ast.BasicLit)
	require.True(t, ok, "%s: the message is no literal", name)
	message, err := strconv.Unquote(text.Value)
	require.NoError(t, err)
	known, ok := codeConstants()[code.Sel.Name]
	require.True(t, ok, "%s: code %s", name, code.Sel.Name)
	declared[name] = declaredError{known, message}
}

func TestServerErrorsAreExactlyThoseOfTheRelease(t *testing.T) {
	declared := declaredErrors(t)
	inTable := make(map[string]declaredError)
	for _, r := range ServerErrors() {
		if r.Name != "" {
			require.NotContains(t, inTable, r.Name, "listed twice")
			inTable[r.Name] = declaredError{r.Code, r.Message}
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

// The classes that another attempt of a write may follow, and the one that
// proves that a write did not happen, are part of the API: a change of one has to
// be made here as well.
func TestClassesOfServerErrors(t *testing.T) {
	want := map[error]Class{
		rpctypes.ErrGRPCRequestTooManyRequests:     Overloaded,
		rpctypes.ErrGRPCTimeoutWaitAppliedIndex:    Overloaded,
		rpctypes.ErrGRPCNoLeader:                   NoLeader,
		rpctypes.ErrGRPCNotLeader:                  Refused,
		rpctypes.ErrGRPCNotCapable:                 Refused,
		rpctypes.ErrGRPCUnhealthy:                  Refused,
		rpctypes.ErrGRPCNotSupportedForLearner:     Refused,
		rpctypes.ErrGRPCInvalidAuthToken:           Token,
		rpctypes.ErrGRPCAuthOldRevision:            Token,
		rpctypes.ErrGRPCUserEmpty:                  Token,
		rpctypes.ErrGRPCNoSpace:                    Executed,
		rpctypes.ErrGRPCMemberNotLearner:           Executed,
		rpctypes.ErrGRPCWatchCanceled:              Ambiguous,
		rpctypes.ErrGRPCCanceled:                   Ambiguous,
		rpctypes.ErrGRPCDeadlineExceeded:           Ambiguous,
		rpctypes.ErrGRPCLeaderChanged:              Ambiguous,
		rpctypes.ErrGRPCStopped:                    Ambiguous,
		rpctypes.ErrGRPCTimeout:                    Ambiguous,
		rpctypes.ErrGRPCTimeoutDueToLeaderFail:     Ambiguous,
		rpctypes.ErrGRPCTimeoutDueToConnectionLost: Ambiguous,
	}
	special := make(map[string]Class)
	for err, class := range want {
		special[rpctypes.ErrorDesc(err)] = class
	}
	for _, r := range ServerErrors() {
		if r.Name == "" {
			continue
		}
		class, ok := special[r.Message]
		if !ok {
			class = Definite
		}
		assert.Equal(t, class, r.Class, r.Name)
	}
}
