package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/verify"
	"github.com/quorate/quorate/lab/etcdtest"
)

func TestVerify(t *testing.T) {
	cluster := etcdtest.Start(t, etcdtest.Config{}).Lab
	page := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(page, bytes.Repeat([]byte("x"), 10<<20), 0o600))
	stdout, _ := execute(t, cli.OK, "verify", "--endpoints", cluster.Endpoints()[0], "--command-timeout", "1m", "--duration", "1s", "--html", page)
	assert.Contains(t, stdout, "The answers are linearizable")
	assert.Contains(t, stdout, "none was lost, repeated, out of order or untrue")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "<html")
	assert.NotContains(t, string(html), "xxx", "it replaces another one")
	execute(t, cli.Failure, "verify", "--endpoints", "127.0.0.1:1", "--command-timeout", "100ms", "--html", page)
	kept, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, html, kept, "there is none to replace it")

	stdout, _ = execute(t, cli.OK, "verify", "--endpoints", cluster.Endpoints()[0], "--command-timeout", "1m", "--duration", "500ms", "--json")
	var result verify.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &result))
	assert.Equal(t, "linearizable", result.Linear)
}
