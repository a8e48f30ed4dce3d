package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/cmd/quorate/internal/explain"
)

func TestExplain(t *testing.T) {
	stdout, _ := execute(t, cli.OK, "explain", "etcdserver:", "request", "timed", "out")
	assert.Contains(t, stdout, "name             rpctypes.ErrGRPCTimeout\n")

	stdout, _ = execute(t, cli.OK, "explain", "code = Internal desc = a\x1b[2J")
	assert.NotContains(t, stdout, "\x1b")
	stdout, _ = execute(t, cli.OK, "explain", "--json", "code = Internal desc = a\u009b2J\u202e\U000e0001")
	assert.Contains(t, stdout, `a\u009b2J\u202e\udb40\udc01`)

	stdout, stderr := execute(t, cli.Negative, "explain", "out of paper")
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "no error of etcd or gRPC that is known")
}

// An error is explained once, before the next line is there, and after a line that is too long.
func TestExplainAsLinesArrive(t *testing.T) {
	in, lines := io.Pipe()
	shown, out := io.Pipe()
	root, ended := newRootCommand(), make(chan int)
	root.SetArgs([]string{"explain", "--json"})
	root.SetIn(in)
	root.SetOut(out)
	go func() { ended <- cli.Execute(t.Context(), root) }()
	objects := json.NewDecoder(shown)
	for text, class := range map[string]string{
		"all is well\nput: etcdserver: no leader\nget: etcdserver: no leader": "NoLeader",
		strings.Repeat("x", 2*maxLine) + "\ncontext canceled":                 "Ended",
	} {
		_, err := io.WriteString(lines, text+"\n")
		require.NoError(t, err)
		var e explain.Explanation
		require.NoError(t, objects.Decode(&e))
		assert.Equal(t, class, e.Class)
	}
	require.NoError(t, lines.Close())
	assert.Equal(t, cli.OK, <-ended)
}

// The page shows what the program prints.
func TestExplainAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/program.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "\n$ quorate explain '")
	require.True(t, found)
	argument, rest, _ := strings.Cut(example, "'\n")
	want, _, _ := strings.Cut(rest, "```")
	stdout, _ := execute(t, cli.OK, "explain", argument)
	assert.Equal(t, want, stdout)
}
