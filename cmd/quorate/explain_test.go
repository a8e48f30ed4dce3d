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
	"github.com/quorate/quorate/cmd/internal/cli/clitest"
	"github.com/quorate/quorate/cmd/quorate/internal/explain"
)

func TestExplain(t *testing.T) {
	status, stdout, _ := clitest.Exec(t.Context(), newRootCommand(), "explain", "etcdserver:", "request", "timed", "out")
	assert.Equal(t, cli.OK, status)
	assert.Contains(t, stdout, "name             rpctypes.ErrGRPCTimeout\n")

	_, stdout, _ = clitest.Exec(t.Context(), newRootCommand(), "explain", "code = Internal desc = a\x1b[2J")
	assert.NotContains(t, stdout, "\x1b")

	status, stdout, stderr := clitest.Exec(t.Context(), newRootCommand(), "explain", "out of paper")
	assert.Equal(t, cli.Negative, status)
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
	_, stdout, _ := clitest.Exec(t.Context(), newRootCommand(), "explain", argument)
	assert.Equal(t, want, stdout)
}
