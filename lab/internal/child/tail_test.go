package child_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/internal/child"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("first\nsecond\n"), 0o600))
	assert.Equal(t, "first\nsecond", child.Tail(path, 100))
	assert.Equal(t, "cond", child.Tail(path, 5))
	assert.Empty(t, child.Tail(path+".missing", 100))
}
