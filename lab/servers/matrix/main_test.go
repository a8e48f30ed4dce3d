package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/lab/behaviours"
	"github.com/quorate/quorate/lab/servers"
)

func example() table {
	const bad = "broken"
	rows := []behaviours.Behaviour{{Area: "KV", Name: "put"}, {Area: "KV", Name: "get"}, {Area: "watch", Name: "key"}, {Area: "watch", Name: "old"}, {Area: "watch", Name: "none"}}
	return table{rows, []column{{servers.All[0], rows, []*cell{{}, {official: bad}, {quorate: bad}, {bad, bad}, nil}}}}
}

func TestCells(t *testing.T) {
	example := example()
	require.Equal(t, "4 cells: both 1, only Quorate 1, only the official client 1, neither 1. Official client 2, Quorate 2.", example.summary())
	differing := example.text(false)
	require.Contains(t, differing, "KV: get     etcd 3.4  Quorate   official: broken")
	require.Contains(t, differing, "watch: key  etcd 3.4  official  Quorate: broken")
	require.NotContains(t, differing, "KV: put")
	require.Contains(t, example.text(true), "KV: put")
}

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600))
	for range 2 { // the second time it replaces its own
		require.NoError(t, example().writePage(path))
	}
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+beginMark+example().markdown(time.Now())+endMark+"after\n", string(page))
	require.Contains(t, string(page), "| put | ✓ |\n| get | **Quorate** |\n| *watch* | |\n| key | official |\n| old | – |\n| none |  |\n")
	require.NoError(t, os.WriteFile(path, []byte("no marks"), 0o600))
	require.ErrorContains(t, example().writePage(path), "lacks the lines")
}
