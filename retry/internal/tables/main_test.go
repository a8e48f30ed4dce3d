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

const docs = "../../../docs"

func TestFilesAreUpToDate(t *testing.T) {
	for name, render := range files {
		want, err := render()
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("docs/%s is stale, run: go generate ./retry\n%s", name, diff)
		}
	}
}

func TestPageHoldsEveryTable(t *testing.T) {
	text, err := page()
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
