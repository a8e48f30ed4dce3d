package client

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAdaptersAreTheSame generates package quorate again.
func TestAdaptersAreTheSame(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "quorate")
	out, err := exec.CommandContext(t.Context(), "go", "run", "github.com/quorate/quorate/lab/contract/reimport", "official", fresh).CombinedOutput()
	require.NoError(t, err, string(out))
	want, err := os.ReadFile(filepath.Join(fresh, "adapter.go"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join("quorate", "adapter.go"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "package quorate is stale: run go generate ./client")
}
