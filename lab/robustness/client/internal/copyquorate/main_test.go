package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCopiesAreCurrent(t *testing.T) {
	t.Chdir("../..")
	for _, c := range copies {
		want, err := c.text()
		require.NoError(t, err)
		got, err := os.ReadFile(c.to)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "%s: run go generate ./lab/robustness/client", c.to)
	}
}
