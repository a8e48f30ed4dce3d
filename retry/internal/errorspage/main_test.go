package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/retry"
)

func TestPageIsUpToDate(t *testing.T) {
	want, err := render()
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "error-tables.md"))
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/error-tables.md is stale, run: go generate ./retry\n%s", diff)
	}
}

func TestPageHoldsEveryTable(t *testing.T) {
	text, err := render()
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|--") {
			rows++
			assert.True(t, strings.HasSuffix(line, "|\n"), line)
		}
	}
	const otherTables = 6 + 3 // defaults, heads included
	const heads = 5
	tables := len(retry.Decisions()) + len(retry.ServerErrors()) + len(retry.LocalErrors()) + len(retry.Codes()) + len(retry.Methods())
	assert.Equal(t, tables+heads+otherTables, rows)
}

func TestWriteReportsWhereItFailed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing", "tables.md")
	assert.ErrorContains(t, write(file), file)
}
