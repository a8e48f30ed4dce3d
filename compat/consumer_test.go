//go:build experiment

package compat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/compat/internal/source"
)

// TestConsumer runs a program of the official client over the shim, plain and with the race detector, which compiles and
// links it anew.
func TestConsumer(t *testing.T) {
	modfile := overShim(t, tree(t))
	for name, flags := range map[string][]string{"plain": nil, "race": {"-race"}} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"test", "-modfile", modfile, "-tags", "overshim", "-count=1", "-v"}, flags...)
			out := goCommand(t, append(args, "./consumer")...)
			require.Contains(t, out, "--- PASS: TestAssignedVariableIsOne")
		})
	}
}

// overShim returns the path of a copy of this module's go.mod that replaces the official client.
func overShim(t *testing.T, tree source.Tree) string {
	t.Helper()
	modfile := filepath.Join(t.TempDir(), "overshim.mod")
	for _, extension := range []string{"mod", "sum"} {
		content, err := os.ReadFile("go." + extension)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(strings.TrimSuffix(modfile, "mod")+extension, content, 0o644))
	}
	goCommand(t, "mod", "edit", "-replace", source.Official+"="+tree.Shim(), modfile)
	return modfile
}
