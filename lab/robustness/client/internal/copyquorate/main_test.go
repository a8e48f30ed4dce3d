package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCopiesAreCurrent(t *testing.T) {
	for _, name := range names {
		want, err := copyOf(filepath.Join("..", "..", "quorate", name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", "..", "official", name))
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "%s: run go generate ./lab/robustness/client", name)
	}
}
